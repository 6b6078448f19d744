"""The doctor's sheet from facts of other machines: what is wrong with each, by which cause, with which remedy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from slowtrain import diagnose
from slowtrain.causes import all_causes
from slowtrain.causes.judged import facts_of
from slowtrain.checkup.sheet import bare, causes, sheet
from slowtrain.machine import document
from slowtrain.machine.judging import judge, outcome
from slowtrain.machine.rules import SOURCES
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State
from slowtrain.report import doctor, doctor_html
from slowtrain.trace import Trace
from slowtrain.trace.drawn import drawn

FIXTURES = Path(__file__).parent / "machine/fixtures"
FILES = sorted(FIXTURES.glob("*.json"))
WRONG = {
    "healthy_t4": {},
    "cpu_only_vm": {},
    "h100_vm": {},
    "cpu_wheel": {"machine/gpu-unseen": "tensorflow[and-cuda]==2.21.0"},
    "missing_cudnn": {"machine/gpu-unseen": "nvidia-cudnn-cu12"},
    "container_without_gpu": {"machine/gpu-unseen": "--gpus all", "machine/limited-host": "--cpus"},
    "rtx5090_wsl": {"startup/jit-from-ptx": "CUDA_CACHE_MAXSIZE", "machine/limited-host": "WSL's own file system"},
    "worn_v100": {
        "machine/faulty-gpu": "--gpu-reset -i 0",
        "machine/throttled-clock": "-pl 250",
        "machine/busy-gpu": "4711",
        "transfer/slow-link": "16 lanes",
        "machine/slowing-setting": "unset CUDA_LAUNCH_BLOCKING",
        "machine/limited-host": "numactl --cpunodebind=1",
    },
    "old_driver": {"machine/gpu-unseen": "driver", "machine/library-mismatch": "525.60.13"},
    "windows_native": {"machine/gpu-unseen": "WSL2"},
}

each_file = pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)


def facts(name: str) -> dict[str, Any]:
    return document.read(FIXTURES / f"{name}.json")


def changed(name: str, *path: str, to: Any) -> dict[str, Any]:
    """A fixture with one fact other than it is."""
    found = facts(name)
    place: Any = found
    for key in path[:-1]:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(path[-1]) if isinstance(place, list) else path[-1]] = to
    return found


def named(found: dict[str, Any], cause: str, name: str) -> Check:
    return next(c for c in judge(found) if c.cause == cause and c.name == name)


def test_every_fixture_says_where_it_comes_from_and_is_expected() -> None:
    assert {f.stem for f in FILES} == set(WRONG)
    assert all(json.loads(f.read_text())["about"] for f in FILES)


@each_file
def test_what_is_wrong_and_its_remedy(file: Path) -> None:
    found = sheet(document.read(file), str(file))
    expected = WRONG[file.stem]
    assert {c.cause for c in found.of(State.WRONG)} == set(expected)
    for cause, words in expected.items():
        assert any(words in (c.remedy or "") for c in found.of(State.WRONG) if c.cause == cause)
    assert (found.headline[0] != "n") == bool(expected)
    for check in found.checks:
        assert (check.remedy is not None) == (check.state is State.WRONG)
        assert bool(check.missing) == (check.state is State.UNCHECKED)
        assert set(check.sources) <= set(SOURCES)


@each_file
def test_causes_and_checks_agree(file: Path) -> None:
    """What ``run`` would say of these facts is what the sheet says."""
    found = sheet(document.read(file))
    for cause, state in found.causes.items():
        checks = tuple(c for c in found.checks if c.cause == cause)
        assert checks, f"nothing was looked at for {cause}"
        said = outcome(checks)
        assert state is (State.FINE if said is State.NOTED else said)


@each_file
def test_the_text_fits_a_screen(file: Path) -> None:
    for unicode in (True, False):
        lines = doctor.render(sheet(document.read(file)), width=80, unicode=unicode).splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
        assert unicode or all(line.isascii() for line in lines)


@each_file
def test_its_json_is_read_again_with_the_same_answer(file: Path, tmp_path: Path) -> None:
    first = sheet(document.read(file))
    (tmp_path / "again.json").write_text(doctor.dump(first))
    assert doctor.document(sheet(document.read(tmp_path / "again.json"))) == doctor.document(first)


def test_names_from_somewhere_cannot_break_out_of_the_page() -> None:
    bad = changed("healthy_t4", "gpu", "devices", "0", "name", to="<script>alert(1)</script>\x1b[31m")
    page = doctor_html.render(sheet(bad))
    assert "<script>alert" not in page
    assert "alert(1)" in page
    assert "\x1b" not in doctor.render(sheet(bad))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_without_the_probe_of_frameworks_nothing_of_them_is_fine(name: str) -> None:
    found = facts(name)
    del found["frameworks"]
    asked = {"machine/gpu-unseen", "machine/library-mismatch", "startup/jit-from-ptx"}
    fine = {c.name for c in judge(found) if c.cause in asked and c.state is State.FINE}
    assert fine <= {"driver", "match"}
    if found["gpu"]["devices"]:
        assert "match" not in fine


def test_without_a_load_link_and_clock_are_unchecked() -> None:
    found = changed("worn_v100", "load", to={"unmeasured": "--no-load was given", "devices": []})
    for cause, name in (("transfer/slow-link", "link"), ("machine/throttled-clock", "clock")):
        check = named(found, cause, name)
        assert (check.state, check.missing) == (State.UNCHECKED, (Signal.LOAD,))


def test_a_generation_that_the_table_does_not_know_is_unchecked() -> None:
    found = changed("healthy_t4", "gpu", "devices", "0", "pcie_generation_max", to=9)
    assert named(found, "transfer/slow-link", "link").state is State.UNCHECKED


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        (("environment",), {"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES"),
        (("environment",), {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES"),
        (("libraries", "0", "loaded"), None, "libcuda.so.1"),
        (("frameworks", "tensorflow", "capabilities"), ["sm_80", "compute_90"], "no code for"),
        (("frameworks", "tensorflow", "said"), ["failed call to cuInit: CUDA_ERROR_UNKNOWN"], "cuInit"),
    ],
)
def test_why_a_framework_sees_no_gpu(path: tuple[str, ...], to: Any, words: str) -> None:
    found = changed("healthy_t4", *path, to=to)
    found["frameworks"]["tensorflow"]["gpus"] = 0
    check = named(found, "machine/gpu-unseen", "tensorflow")
    assert check.state is State.WRONG
    assert words in check.says


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": [{"path": "/dev/nvidia0", "usable": False}]}, "may not open /dev/nvidia0"),
        ({"kernel_driver": None, "nouveau": True, "files": []}, "nouveau"),
        ({"kernel_driver": None, "files": []}, "not loaded"),
        ({"wsl": True}, "/dev/dxg"),
    ],
)
def test_why_the_driver_shows_no_gpu(change: dict[str, Any], words: str) -> None:
    found = facts("healthy_t4")
    found["devices"].update(change)
    found["gpu"] = {"unmeasured": "Driver/library version mismatch", "devices": []}
    assert words in named(found, "machine/gpu-unseen", "driver").says


def test_a_driver_updated_under_a_running_system_wants_a_reboot() -> None:
    found = facts("healthy_t4")
    found["gpu"] = {"unmeasured": "Driver/library version mismatch", "devices": []}
    assert "reboot" in (named(found, "machine/gpu-unseen", "driver").remedy or "")


def test_a_real_card_in_order() -> None:
    """As `nvidia-smi -q` gave it at the same time: PCIe 5 x16, 1980 MHz, 700 W, 480 MiB reserved, no errors."""
    found = facts("h100_vm")
    said = {(c.cause, c.name): c for c in judge(found)}
    link, kept = said["transfer/slow-link", "link"], said["machine/busy-gpu", "processes"]
    assert link.state is State.FINE
    assert link.numbers["link_gbps"] == pytest.approx(16 * 3.938)
    assert "PCIe 5.0 x16" in link.says
    assert "54.4 GB/s" in link.says
    assert kept.says == "no other process computes on it (480 MiB kept by the driver)"
    assert said["machine/throttled-clock", "power limit"].says == "700 W, its default"
    assert said["machine/faulty-gpu", "memory errors"].state is State.FINE
    assert said["startup/jit-from-ptx", "torch code"].state is State.FINE
    clock = said["machine/throttled-clock", "clock"]
    assert clock.state is State.FINE
    assert "1980 of 1980 MHz, 407 W, 43 °C, slows down at 89 °C" in clock.says
    # Under copies alone nothing of heat or power can show.
    found["load"]["devices"][0]["computed_seconds"] = 0.0
    assert named(found, "machine/throttled-clock", "clock").state is State.UNCHECKED


def test_libraries_that_lie_there_and_are_not_loaded_are_none_of_its_matter() -> None:
    """The loader finds cuDNN 9.14 there; PyTorch and JAX load 9.19 from its wheel."""
    found = facts("h100_vm")
    assert not any("9.14" in c.says or c.name.endswith("duplicates") for c in judge(found))
    files: list[dict[str, str | None]] = [{"file": "/usr/lib/libcudnn.so.9.14.0", "version": "9.14.0"}]
    found["frameworks"]["torch"]["loaded"] = files
    found["frameworks"]["torch"] |= {"cudnn_version": "9.19.0", "cudnn_loaded": None}
    check = named(found, "machine/library-mismatch", "torch cuDNN")
    assert check.state is State.WRONG
    assert check.says == (
        "PyTorch 2.11.0+cu130 was built with cuDNN 9.19.0 and loads 9.14.0 (/usr/lib/libcudnn.so.9.14.0)"
    )
    assert "'nvidia-cudnn-cu13>=9.19,<10'" in str(check.remedy)
    files[0]["version"] = "9.20.1"
    assert named(found, "machine/library-mismatch", "torch cuDNN").state is State.FINE
    files.append({"file": "/opt/other/libcudnn.so.9", "version": None})
    assert named(found, "machine/library-mismatch", "torch cuDNN").state is State.UNCHECKED  # which of them?
    assert "has loaded libcudnn 2 times" in named(found, "machine/library-mismatch", "torch duplicates").says


@pytest.mark.parametrize(
    ("built", "file", "version", "state"),
    [
        ("9", "/venv/nvidia/cudnn/lib/libcudnn.so.9", None, State.FINE),  # TensorFlow tells the major version alone
        ("9", "/venv/nvidia/cudnn/lib/libcudnn.so.9", "9.3.0.75", State.FINE),
        ("9.3", "/venv/nvidia/cudnn/lib/libcudnn.so.9", None, State.UNCHECKED),
        ("9.3", "/venv/nvidia/cudnn/lib/libcudnn.so.9", "9.1.0.70", State.WRONG),
        ("8", "/usr/lib/libcudnn.so.9", None, State.WRONG),
        ("9", None, None, State.UNCHECKED),
    ],
)
def test_cudnn_as_it_is_loaded(built: str, file: str | None, version: str | None, state: State) -> None:
    found = facts("healthy_t4")
    found["frameworks"]["tensorflow"] |= {
        "cudnn_version": built,
        "loaded": [{"file": file, "version": version}] if file else [],
    }
    assert named(found, "machine/library-mismatch", "tensorflow cuDNN").state is state


def test_a_framework_beside_the_one_in_use_may_be_blind() -> None:
    found = facts("healthy_t4")
    found["frameworks"]["torch"] = {"version": "2.9.0+cpu", "cuda_build": False, "rocm_build": False, "gpus": 0}
    assert named(found, "machine/gpu-unseen", "torch").state is State.NOTED
    found["keras_backend"] = "torch"
    assert named(found, "machine/gpu-unseen", "torch").state is State.WRONG


def test_a_quota_counts_when_it_binds() -> None:
    found = changed("container_without_gpu", "cgroup", "throttled_periods", to=3.0)
    assert named(found, "machine/limited-host", "quota").state is State.NOTED
    found["cgroup"]["periods"] = None
    assert named(found, "machine/limited-host", "quota").state is State.UNCHECKED


def test_a_rate_from_the_page_cache_is_not_the_disks() -> None:
    data = {"folder": "/data", "filesystem": "ext4", "kind": "solid-state", "read_files": 9, "read_bytes": 9e6,
            "seconds": 1.0, "bytes_per_second": 9e6, "from_storage_share": 0.2}  # fmt: skip
    check = named({**facts("healthy_t4"), "data": data}, "machine/limited-host", "data folder")
    assert check.state is State.UNCHECKED
    data["from_storage_share"] = 1.0
    check = named({**facts("healthy_t4"), "data": data}, "machine/limited-host", "data folder")
    assert (check.state, check.numbers["bytes_per_second"]) == (State.NOTED, 9e6)


def test_a_small_shared_memory_matters_to_what_uses_it() -> None:
    found = changed("healthy_t4", "memory", "shm_total_bytes", to=64 << 20)
    assert named(found, "machine/limited-host", "shared memory").state is State.NOTED
    found["gpu"]["devices"] *= 2
    assert named(found, "machine/limited-host", "shared memory").state is State.WRONG


def test_in_a_run_the_framework_of_the_run_speaks() -> None:
    """No child was asked there: the run's own devices and its own build information are."""
    machine = facts("cpu_wheel")
    del machine["frameworks"]
    run = {"machine": machine, "devices": [{"kind": "CPU"}], "build": {"version": "2.21.0", "cuda_build": False}}
    trace = Trace(signals=frozenset(Signal), facts=run)
    found = diagnose.examine(trace, [c for c in causes() if c.id == "machine/gpu-unseen"])
    assert [d.cause for d in found.diagnoses] == ["machine/gpu-unseen"]
    assert "build for the CPU" in found.diagnoses[0].evidence.says
    assert facts_of(trace)["frameworks"]["tensorflow"]["gpus"] == 0


def test_in_a_run_on_jax_jax_is_judged() -> None:
    machine = facts("h100_vm")
    build = {**machine.pop("frameworks")["jax"], "cudnn_version": "9.12.0", "cudnn_loaded": "9.19.0"}
    machine["keras_backend"] = "tensorflow"  # the script chose JAX by itself
    run = {"machine": machine, "devices": [{"kind": "GPU"}], "build": build, "keras": {"backend": "jax"}}
    trace = Trace(signals=frozenset(Signal), facts=run)
    asked = {"machine/gpu-unseen", "machine/library-mismatch", "startup/jit-from-ptx"}
    found = diagnose.examine(trace, [c for c in causes() if c.id in asked])
    assert (found.diagnoses, found.unchecked) == ((), ())
    said = [c.says for c in judge(facts_of(trace)) if c.cause in asked]
    assert "JAX 0.11.2 loads cuDNN 9.19.0, built with 9.12.0" in said
    assert not any("TensorFlow" in one for one in said)
    run["devices"] = [{"kind": "CPU"}]
    found = diagnose.examine(Trace(signals=frozenset(Signal), facts=run), [c for c in causes() if c.id in asked])
    assert [d.cause for d in found.diagnoses] == ["machine/gpu-unseen"]
    assert "JAX 0.11.2 sees no GPU" in found.diagnoses[0].evidence.says


def test_settings_of_jax() -> None:
    found = facts("h100_vm")
    said = {"JAX_PLATFORMS": "cpu", "JAX_DEBUG_NANS": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    found["environment"] = said | {"JAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_DISABLE_JIT": "0"}
    states = {c.name: c.state for c in judge(found) if c.cause == "machine/slowing-setting"}
    assert states == {
        "JAX_DEBUG_NANS": State.WRONG, "XLA_PYTHON_CLIENT_ALLOCATOR": State.WRONG,
        "JAX_DEFAULT_MATMUL_PRECISION": State.NOTED,
    }  # fmt: skip
    assert named(found, "machine/gpu-unseen", "jax").state is State.FINE  # it sees one all the same
    found["frameworks"]["jax"]["gpus"] = 0
    assert "JAX_PLATFORMS=cpu leaves it out" in named(found, "machine/gpu-unseen", "jax").says
    found["environment"]["JAX_PLATFORMS"] = "cuda,cpu"
    assert "JAX_PLATFORMS" not in named(found, "machine/gpu-unseen", "jax").says


def test_in_a_container_one_process_on_the_card_may_be_the_run_itself() -> None:
    machine = changed("worn_v100", "devices", "own_pid_namespace", to=True)
    busy = [c for c in causes() if c.id == "machine/busy-gpu"]
    run = Trace(signals=frozenset({Signal.FACTS}), facts={"machine": machine})
    assert [d.cause for d in diagnose.examine(run, busy).diagnoses] == ["machine/busy-gpu"]
    machine["gpu"]["devices"][0]["compute_processes"].pop()
    run = Trace(signals=frozenset({Signal.FACTS}), facts={"machine": machine})
    assert [u.missing for u in diagnose.examine(run, busy).unchecked] == [("card",)]
    assert [d.cause for d in diagnose.examine(bare(machine), busy).diagnoses] == ["machine/busy-gpu"]


def test_whether_a_card_was_grabbed_is_read_off_a_run() -> None:
    """As a recording has it: no trace ever measures the card by itself, the facts hold what the driver says of it."""
    grabbed = [c for c in all_causes() if c.id == "memory/grabbed-device"]
    measured = frozenset({Signal.FACTS, Signal.DEVICE_MEMORY})
    machine = facts("h100_vm")
    found = diagnose.examine(Trace(signals=measured, facts={"machine": machine}), grabbed)
    assert (found.healthy, found.unchecked) == (("memory/grabbed-device",), ())
    machine["gpu"]["devices"][0]["compute_processes"] = None
    found = diagnose.examine(Trace(signals=measured, facts={"machine": machine}), grabbed)
    assert [u.missing for u in found.unchecked] == [("card",)]
    found = diagnose.examine(Trace(signals=measured, facts={"machine": facts("cpu_only_vm")}), grabbed)
    assert found.unchecked == ()


def test_a_hot_card_in_a_run_is_priced_by_its_clock() -> None:
    fires = next(c for c in causes() if c.id == "machine/throttled-clock")
    found = diagnose.examine(drawn(fires.fires[0]), [fires])
    # 600 of 1590 MHz through the whole step: at its full clock arithmetic takes 0.377 of it.
    assert found.diagnoses[0].saving.after_ms == pytest.approx(10 * 600 / 1590)


def test_a_card_at_rest_is_no_throttled_one() -> None:
    trace = bare(changed("healthy_t4", "load", to={"unmeasured": "no load", "devices": []}))
    found = diagnose.examine(trace, [c for c in causes() if c.id == "machine/throttled-clock"])
    assert found.diagnoses == ()


STRANGE: strategies.SearchStrategy[Any] = strategies.sampled_from(
    [None, "", "x", -1, 0, 1e308, True, [], {}, [None], [[]], {"a": 1}, "0.0.0"]
)


@given(strategies.data())
def test_damaged_facts_never_end_in_a_traceback(data: strategies.DataObject) -> None:
    from slowtrain.cli.doctor import DAMAGED

    found = json.loads(data.draw(strategies.sampled_from(FILES)).read_text())
    for _ in range(data.draw(strategies.integers(1, 4))):
        place: Any = found
        while isinstance(place, (dict, list)) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(strategies.sampled_from(list(keys)))
            if data.draw(strategies.booleans()) or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = copy.deepcopy(data.draw(STRANGE))  # or the next one is put into it, and into itself
                break
            place = place[key]
    try:
        answer = sheet(found)
        doctor.render(answer)
        doctor_html.render(answer)
    except DAMAGED:
        return
