"""Profiles of the kinds that were answered wrongly when other people's were read: the right answer of each."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.cli import main
from slowtrain.columns.arrays import Floats
from slowtrain.columns.device import Kernels
from slowtrain.columns.steps import Steps
from slowtrain.errors import InputError
from slowtrain.model import Category
from slowtrain.profile import host_threads, timeline
from slowtrain.profile.format import xplane
from slowtrain.trace.loading import profile_trace
from slowtrain.trace.run_division import attribution
from slowtrain.trace.signals import input_feed

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package
from .messages import TRACES, entry, event, nested, number

FOUND = Path(__file__).parent / "found"
MS = 1_000_000_000  # ps
Row = tuple[str, float, float]  # name, start and length in ms


def answer(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["diagnose", "--json", "-", str(path)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def page(path: Path, tmp_path: Path) -> str:
    assert main(["diagnose", "--html", str(tmp_path / "page.html"), str(path)]) == 0
    return (tmp_path / "page.html").read_text()


def parts(document: dict[str, Any]) -> dict[str, float]:
    return {part["category"]: part["ms"] for part in document["attribution"]["parts"]}


def plane(name: str, lines: Mapping[str, Sequence[Row]]) -> bytes:
    texts = list(dict.fromkeys(row[0] for rows in lines.values() for row in rows))
    made = [
        nested(3, number(1, i + 1), nested(2, label.encode()),
               *(event(texts.index(text) + 1, int(start * MS), int(ms * MS)) for text, start, ms in rows))
        for i, (label, rows) in enumerate(lines.items())
    ]  # fmt: skip
    return nested(1, nested(2, name.encode()), *made, *(entry(4, i + 1, text) for i, text in enumerate(texts)))


def written(folder: Path, *planes: bytes) -> Path:
    (folder / "host.xplane.pb").write_bytes(b"".join(planes))
    return folder / "host.xplane.pb"


# ---- marks of steps --------------------------------------------------------------------------------------------


def test_a_mark_that_a_late_op_of_a_callback_stretches_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(FOUND / "one_step_ends_with_the_callback.xplane.pb", capsys)
    assert 138 <= found["steps"]["median_ms"] <= 140
    assert parts(found)["device"] / found["attribution"]["total_ms"] == pytest.approx(0.79, abs=0.005)
    assert parts(found).get("python", 0.0) < 1.0
    assert found["step_verdict"] == "insufficient-data"  # one step does not tell whether each has what lies behind
    assert "231 ms Python of the script" in " ".join(found["notes"])


def test_a_mark_that_ends_with_the_step_stays(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(FOUND / "one_step_ends_with_itself_control.xplane.pb", capsys)
    assert found["steps"]["median_ms"] == pytest.approx(138.05, abs=0.01)
    assert found["step_verdict"] == "compute-bound"


MARKS = ("Stream #1(Compute)", "Steps")


def marked(steps: int, tail_ms: float, late: Sequence[Row], between_ms: float = 0.0) -> bytes:
    """Steps of 100 ms, 80 of them at work; ``late`` runs behind the last one, ``tail_ms`` behind its call."""
    each = 100.0 + between_ms
    calls = [("EagerLocalExecute: __inference_train_function_7", i * each, 100.0) for i in range(steps)]
    work = [("gemm", i * each + 10, 80.0) for i in range(steps)]
    marks = [(str(i), i * each + 10, 80.0 + between_ms) for i in range(steps - 1)]
    last = (steps - 1) * each
    tail = [(text, last + 100 + tail_ms, ms) for text, _, ms in late]
    marks.append((str(steps - 1), last + 10, 90 + tail_ms + sum(ms for _, _, ms in late)))
    device = plane("/device:GPU:0", {MARKS[0]: [*work, *tail], MARKS[1]: marks})
    return plane("/host:CPU", {"python3": calls}) + device


@pytest.mark.parametrize(
    ("steps", "tail_ms", "late", "length_ms"),
    [
        (1, 300.0, [("MemcpyD2H", 0, 0.01)], 100.0),
        (4, 300.0, [("MemcpyD2H", 0, 0.01)], 100.0),
        (1, 300.0, [("gemm", 0, 40.0)], 430.0),  # that is no tiny op: the step has a second part
        (1, 5.0, [("MemcpyD2H", 0, 0.01)], 95.01),
    ],
    ids=["one", "the last of four", "a second part", "at once"],
)
def test_only_a_tiny_late_op_is_cut_off(
    tmp_path: Path, steps: int, tail_ms: float, late: Sequence[Row], length_ms: float
) -> None:
    trace = profile_trace.load_profile([written(tmp_path, marked(steps, tail_ms, late))])
    assert float(trace.steps.ms[-1]) == pytest.approx(length_ms)


def test_a_call_that_was_over_when_the_device_began_tells_too(tmp_path: Path) -> None:
    """The host was ahead: correlation ids tell what it had launched in its call."""
    stat = nested(5, number(1, 1), nested(2, number(1, 1), nested(2, b"correlation_id")))

    def row(key: int, start: float, ms: float, correlation: int = 0) -> bytes:
        more = [nested(4, number(1, 1), number(3, correlation))] if correlation else []
        return event(key, int(start * MS), int(ms * MS), *more)

    texts = ("EagerLocalExecute: __inference_train_function_7", "cuLaunchKernel", "gemm", "MemcpyD2H", "0")
    table = b"".join(entry(4, i + 1, text) for i, text in enumerate(texts)) + stat
    host = nested(3, nested(2, b"python3"), row(1, 0, 5), row(2, 1, 0.1, 1), row(2, 2, 0.1, 2), row(2, 400, 0.1, 3))
    work = nested(3, nested(2, b"Stream #1(Compute)"), row(3, 10, 40, 1), row(3, 50, 50, 2), row(4, 401, 0.01, 3))
    marks = nested(3, nested(2, b"Steps"), row(5, 10, 391.01))
    file = written(tmp_path, nested(1, nested(2, b"/host:CPU"), host, table),
                   nested(1, nested(2, b"/device:GPU:0"), work, marks, table))  # fmt: skip
    assert profile_trace.load_profile([file]).steps.ms.tolist() == pytest.approx([90.0])


def test_what_each_step_has_behind_its_call_is_of_the_step(tmp_path: Path) -> None:
    trace = profile_trace.load_profile(
        [written(tmp_path, marked(4, 300.0, [("MemcpyD2H", 0, 0.01)], between_ms=310.0))]
    )
    assert trace.steps.ms.min() > 380


# ---- the main thread -------------------------------------------------------------------------------------------


def test_a_gap_on_a_thread_of_another_name_is_python(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(FOUND / "thread_python3.7_callback_gap.xplane.pb", capsys)
    longest = found["device"]["gaps"][0]
    assert longest["reason"] == "python"
    assert longest["ms"] == pytest.approx(583, abs=1)
    assert parts(found).get("unattributed", 0.0) < 1.0
    assert "581 ms Python of the script" in " ".join(found["notes"])


def test_no_compute_verdict_where_most_lies_beside_computing(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(FOUND / "thread_python3.7_verdict_beside_most_not_told.xplane.pb", capsys)
    assert found["verdict"] == found["step_verdict"] == "insufficient-data"
    assert "compute/compute-bound" not in {d["cause"] for d in found["diagnoses"]}


@pytest.mark.parametrize(
    "label",
    ["python", "python3", "python3.7", "python3.11/4711", "python.exe", "MainThread", "", "4711", "0x7fff", "x"],
)
def test_the_main_thread_is_known_by_its_calls(label: str) -> None:
    calls = [("EagerExecute: __inference_train_function_7", i * 10.0, 4.0) for i in range(3)]
    ops = [("EagerLocalExecute: AddV2", i * 1.0, 0.5) for i in range(30)]
    lines = {"tf_Compute/1": ops, label: calls, "python/99": [("tf.constant", 1.0, 1.0)]}
    threads = timeline.read_timeline([xplane.parse_space(plane("/host:CPU", lines))]).threads
    found = host_threads.find_main_thread(threads)
    assert found is not None
    assert found.label == label


def test_a_pool_is_no_main_thread() -> None:
    lines = {"tf_Compute/1": [("EagerLocalExecute: AddV2", i * 1.0, 0.5) for i in range(30)]}
    assert (
        host_threads.find_main_thread(timeline.read_timeline([xplane.parse_space(plane("/host:CPU", lines))]).threads)
        is None
    )


# ---- folders and other files -----------------------------------------------------------------------------------


def test_the_newest_of_folders_at_any_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (
        "a/train/plugins/profile/2024_01_01_00_00_00",
        "exp/set/net/lr/train/plugins/profile/2024_02_02_00_00_00",
    ):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(FOUND / "one_step_ends_with_itself_control.xplane.pb", tmp_path / folder / "host.xplane.pb")
    assert main(["diagnose", "--list", str(tmp_path)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "2024_02_02_00_00_00",
        "2024_01_01_00_00_00",
    ]
    said = " ".join(answer(tmp_path, capsys)["notes"])
    assert "the newest of 2 profiles, 2024_02_02_00_00_00" in said
    assert "2024_01_01_00_00_00" in said


def test_a_legacy_trace_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(FOUND / "local.trace")]) != 0
    assert "a legacy trace; give the *.xplane.pb in the same folder" in capsys.readouterr().err


# ---- no computing ----------------------------------------------------------------------------------------------


def on_cpu(*beside: Row, label: str = "tf_Compute/2") -> bytes:
    """Five steps of 100 ms on a CPU, 20 of each in a product; ``beside`` runs in each on another thread."""
    calls = [("EagerLocalExecute: __inference_train_function_7", i * 100.0, 99.0) for i in range(5)]
    ops = [("dense/MatMul:MatMul", i * 100.0 + 2, 20.0) for i in range(5)]
    other = [(text, i * 100.0 + start, ms) for i in range(5) for text, start, ms in beside]
    return plane("/host:CPU", {"python3": calls, "tf_Compute/1": ops, label: other})


@pytest.mark.parametrize(
    ("op", "category"),
    [
        ("FlushSummaryWriter:FlushSummaryWriter", Category.CALLBACK),
        ("WriteScalarSummary:WriteScalarSummary", Category.CALLBACK),
        ("save/SaveV2:SaveV2", Category.CALLBACK),
        ("save/MergeV2Checkpoints:MergeV2Checkpoints", Category.CALLBACK),
        ("DecodeJpeg:DecodeJpeg", Category.INPUT),
        ("map/ReadFile:ReadFile", Category.INPUT),
        ("ParseExampleV2:ParseExampleV2", Category.INPUT),
        ("CollectiveReduceV2:CollectiveReduceV2", Category.COLLECTIVE_WAIT),
        ("x/CollectiveGatherV2:CollectiveGatherV2", Category.COLLECTIVE_WAIT),
        ("recv/_Recv:_Recv", Category.COLLECTIVE_WAIT),
        ("dense/MatMul:MatMul", Category.DEVICE),
    ],
)
def test_ops_beside_the_model_are_no_computing(tmp_path: Path, op: str, category: Category) -> None:
    trace = profile_trace.load_profile([written(tmp_path, on_cpu((op, 25, 70.0)))])
    expected = 90 if category is Category.DEVICE else 70
    assert trace.mean(category) == pytest.approx(expected, abs=1)
    assert trace.mean(Category.DEVICE) == pytest.approx(90 if category is Category.DEVICE else 20, abs=1)


@pytest.mark.parametrize(("hole_ms", "category"), [(60.0, Category.DISPATCH), (1600.0, Category.UNATTRIBUTED)])
def test_a_long_hole_in_a_call_is_no_dispatch(tmp_path: Path, hole_ms: float, category: Category) -> None:
    each = 40 + hole_ms
    calls = [("EagerLocalExecute: __inference_train_function_7", i * each, each) for i in range(5)]
    ops = [("dense/MatMul:MatMul", i * each + at, 20.0) for i in range(5) for at in (0.0, each - 20)]
    path = written(tmp_path, plane("/host:CPU", {"python3": calls, "tf_Compute/1": ops}))
    assert profile_trace.load_profile([path]).mean(category) == pytest.approx(hole_ms, abs=0.1)


def test_computing_beside_a_collective_is_computing(tmp_path: Path) -> None:
    trace = profile_trace.load_profile([written(tmp_path, on_cpu(("CollectiveReduceV2:CollectiveReduceV2", 2, 70.0)))])
    assert trace.mean(Category.DEVICE) == pytest.approx(20, abs=1)
    assert trace.mean(Category.COLLECTIVE_WAIT) == pytest.approx(50, abs=1)
    assert trace.kernels is not None
    assert trace.kernels.peers_ms == pytest.approx(50, abs=1)
    assert trace.kernels.busy_ms == pytest.approx(20, abs=1)


def test_a_recording_on_a_cpu_carries_the_waiting_over() -> None:
    start: Floats = np.array([0.0, 100.0, 200.0])
    every = np.ones(3, dtype=bool)
    steps = Steps("drawn", start, start + 100.0, every, ~every)
    kernels = Kernels(3, 100.0, 20.0, 20.0, 5.0, 0.0, peers_ms=70.0)
    found = {c: np.zeros(3) for c in Category}
    attribution._divide_calls(
        found, np.full(3, 100.0), attribution.InsideCalls(0.0, kernels, eager=False), steps, 100.0
    )
    assert found[Category.DEVICE][0] == pytest.approx(20)
    assert found[Category.COLLECTIVE_WAIT][0] == pytest.approx(70)
    assert found[Category.DISPATCH][0] == pytest.approx(10)


def test_cores_that_idle_while_others_are_waited_for_are_not_free() -> None:
    trace = parse_drawing("""
        step            1111111111
        device          dd........
        collective-wait ..cccccccc
        @fact usable_cores=4 cpu_ms_per_step=6
    """)
    assert input_feed.busy_cores(trace) == pytest.approx(3)


def test_exchange_of_gpus_is_no_computing(tmp_path: Path) -> None:
    work = [
        row
        for i in range(5)
        for row in (("gemm", i * 100.0, 20.0), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", i * 100.0 + 20, 70.0))
    ]
    trace = profile_trace.load_profile([written(tmp_path, plane("/device:GPU:0", {MARKS[0]: work}))])
    assert trace.mean(Category.COLLECTIVE) == pytest.approx(70, abs=1)
    assert trace.mean(Category.DEVICE) == pytest.approx(20, abs=1)


def test_a_process_that_waits_for_others_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, on_cpu(("CollectiveReduceV2:CollectiveReduceV2", 25, 70.0)))
    assert answer(path, capsys)["step_verdict"] == "transfer-bound"
    assert main(["diagnose", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(
        "TRANSFER-BOUND: this process waits for other ranks for 70 of each step's 99.7 ms; another rank sets the pace"
    )


def test_a_cpu_runs_ops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = page(written(tmp_path, on_cpu(("dense/MatMul:MatMul", 60, 10.0))), tmp_path)
    assert "kernel" not in capsys.readouterr().out
    assert "kernel" not in shown[shown.index("<body") :].partition("<script")[0]


@pytest.mark.parametrize("trace", ["a silent plane", "a launch", "an allocator"])
def test_a_gpu_that_was_not_recorded_has_no_verdict(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "a silent plane": plane("/device:GPU:0", {}),
        "a launch": plane("/host:CPU", {"tf_Compute/9": [("cuLaunchKernel", 3.0, 0.01)]}),
        "an allocator": plane("/host:CPU", {"tf_Compute/9": [("GPU_0_bfc", 3.0, 0.01)]}),
    }[trace]
    found = answer(written(tmp_path, on_cpu(("dense/MatMul:MatMul", 25, 70.0)), more), capsys)
    assert found["step_verdict"] == found["verdict"] == "insufficient-data"
    assert "compute/compute-bound" not in {d["cause"] for d in found["diagnoses"]} | set(found["healthy"])
    assert any(note.startswith("the run used a GPU, but the profile has no GPU events") for note in found["notes"])


# ---- several processes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "waiting_ms", "other", "category"),
    [("mwms-slow-input-on-1", 23, "input-bound", "input"), ("jax-gloo-slow-input-on-1", 22.8, "host-bound", "python")],
)
def test_each_of_two_workers_has_its_own_answer(
    run: str, waiting_ms: float, other: str, category: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = TRACES / "two-hosts" / run
    if not folder.exists():
        pytest.skip(f"the shared traces are not at {TRACES}")
    first = answer(folder / "host0.xplane.pb", capsys)
    assert first["step_verdict"] == "transfer-bound"
    assert parts(first)["collective-wait"] == pytest.approx(waiting_ms, abs=1)
    second = answer(folder / "host1.xplane.pb", capsys)
    assert second["step_verdict"] == other
    assert parts(second)[category] > 20
    both = answer(folder, capsys)
    assert both["step_verdict"] == other  # of the one that the others wait for
    assert any("host0.xplane.pb alone: transfer-bound" in note for note in both["notes"])
    assert any(f"host1.xplane.pb alone: {other}" in note for note in both["notes"])


def test_identical_files_of_two_hosts_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        shutil.copy(FOUND / "one_step_ends_with_itself_control.xplane.pb", tmp_path / f"{name}.xplane.pb")
    notes = answer(tmp_path, capsys)["notes"]
    assert "b.xplane.pb is identical to a.xplane.pb and was read once" in notes
    assert not any("alone:" in note for note in notes)


# ---- a trace viewer's JSON ---------------------------------------------------------------------------------------


def viewed(path: Path, folder: Path) -> Path:
    """The same profile as the trace viewer writes it."""
    rows: list[dict[str, Any]] = []
    for process, one in enumerate(xplane.read_space(path).planes):
        rows.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": one.name}})
        for line in one.lines:
            rows.append({"ph": "M", "pid": process, "tid": line.id, "name": "thread_name", "args": {"name": line.name}})
            events = line.events()
            for i, start, length in zip(events.metadata_id, events.start_ps, events.duration_ps, strict=True):
                rows.append({"ph": "X", "pid": process, "tid": line.id, "ts": int(start) / 1e6,
                             "dur": int(length) / 1e6, "name": one.event_names[int(i)]})  # fmt: skip
    file = folder / "host.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"displayTimeUnit": "ns", "traceEvents": rows}).encode()))
    return file


@pytest.mark.parametrize("name", ["one_step_ends_with_the_callback", "one_step_ends_with_itself_control"])
def test_a_trace_viewers_json_tells_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = FOUND / f"{name}.xplane.pb"
    full, less = answer(path, capsys), answer(viewed(path, tmp_path), capsys)
    assert less["steps"]["median_ms"] == pytest.approx(full["steps"]["median_ms"], rel=1e-3)
    assert parts(less)["device"] == pytest.approx(parts(full)["device"], rel=1e-3)
    assert any("is a trace viewer's JSON, which lacks which call started which kernel" in n for n in less["notes"])


HOSTILE = {
    "deep": b"[" * 100_000,
    "deep inside": b'{"traceEvents":[' + b'{"args":' * 50_000,
    "cut": b'{"traceEvents":[{"ph":"X"',
    "no list": b'{"traceEvents":7}',
    "numbers": b'{"traceEvents":[{"ph":"X","ts":1e999,"dur":NaN,"pid":1},{"ph":"X","ts":[],"dur":{}},7,null,{}]}',
    "digits": b'{"traceEvents":[{"ph":"X","ts":' + b"9" * 10_000 + b"}]}",
    "far": b'{"traceEvents":[{"ph":"X","ts":0,"dur":1,"name":"a"},{"ph":"X","ts":1e17,"dur":1,"name":"b"}]}',
    "surrogate": b'{"traceEvents":[{"ph":"M","name":"thread_name","args":{"name":"\\ud800"}},'
    b'{"ph":"X","ts":0,"dur":0,"name":"\\ud800"}]}',
    "pytorch": b'{"schemaVersion":1,"deviceProperties":[],"traceEvents":[]}',
    "empty": b'{"traceEvents":[]}',
}


def test_damaged_json_is_read_or_declined(tmp_path: Path) -> None:
    chance = random.Random(3)
    whole = gzip.decompress(viewed(FOUND / "one_step_ends_with_itself_control.xplane.pb", tmp_path).read_bytes())
    path, outcomes = tmp_path / "damaged.trace.json", set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(1, 9)] = chance.choice((b"", b"9" * 40, b"null", b"[]", b"-1e300", b'"'))
        path.write_bytes(bytes(data))
        try:
            profile_trace.load_profile([path])
            outcomes.add("read")
        except InputError:
            outcomes.add("declined")
    assert outcomes == {"read", "declined"}


@pytest.mark.parametrize(("name", "ending"), [*((name, "") for name in HOSTILE), ("cut", ".gz")])
def test_hostile_json_is_one_line(name: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"host.trace.json{ending}"
    path.write_bytes(gzip.compress(HOSTILE[name]) if ending else HOSTILE[name])
    assert main(["diagnose", str(path)]) != 0
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "Traceback" not in said[0]
