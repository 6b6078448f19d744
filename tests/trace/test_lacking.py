"""What profilers of GPUs write beside kernels, and what they leave out: read as such, and said.

The profiles are made by hand, after the sources of the profilers that write them (see ``names.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slowtrain.checkup import headline, notes, verdicts
from slowtrain.diagnose import diagnose_trace
from slowtrain.profile import timeline
from slowtrain.profile.device_activity import D2D, D2H, H2D, KERNEL, MEMSET, activity_kind
from slowtrain.profile.format import xplane
from slowtrain.profile.summaries import missing_data
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace

from .messages import entry, event, nested, number

US = 1_000_000  # ps
STATS = ("correlation_id", "memcpy_details", "step_num", "device_vendor", "dropped_traces")
Row = tuple[str, float, float, int]  # name, start and length in us, correlation id
PAGEABLE = "kind_src:pageable kind_dst:device size:{} dest:0 async:1"
PINNED = "kind_src:pinned kind_dst:device size:{} dest:0 async:1"


def plane(name: str, lines: dict[str, Sequence[Row]], details: Sequence[str] = (), extra: bytes = b"") -> bytes:
    """``details``: of the rows that are copies, in order."""
    texts = list(dict.fromkeys(row[0] for rows in lines.values() for row in rows))
    copied = iter(details)
    made = []
    for at, (label, rows) in enumerate(lines.items()):
        events = []
        for text, start, length, correlation in rows:
            stats = [nested(4, number(1, 1), number(3, correlation))] if correlation else []
            if text.startswith("Memcpy") and details:
                stats.append(nested(4, number(1, 2), nested(5, next(copied).encode())))
            if text == "train":
                stats.append(nested(4, number(1, 3), number(4, int(start))))
            events.append(event(texts.index(text) + 1, int(start * US), int(length * US), *stats))
        made.append(nested(3, number(1, at + 1), nested(2, label.encode()), *events))
    table = [entry(4, i + 1, text) for i, text in enumerate(texts)] + [entry(5, i + 1, s) for i, s in enumerate(STATS)]
    return nested(1, nested(2, name.encode()), *made, *table, extra)


def steps(count: int, us: float = 1000.0) -> list[Row]:
    return [("train", i * us, us, 0) for i in range(count)]


def gpu(rows: Sequence[Row], details: Sequence[str] = (), line: str = "Stream #13(Compute)") -> bytes:
    facts = entry(5, 6, "compute_cap_major") + nested(6, number(1, 6), number(3, 8))
    return plane("/device:GPU:0", {line: rows}, details, facts)


def trace_of(*planes: bytes) -> Trace:
    return profile_trace.build_profile_trace([xplane.parse_space(b"".join(planes))])


def notes_of(*planes: bytes) -> str:
    spaces = [xplane.parse_space(b"".join(planes))]
    whole = timeline.read_timeline(spaces)
    return " ".join(missing_data.missing_data_notes(spaces, whole, whole.active[0] if whole.active else None, 0))


# ---- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("MemcpyH2D", H2D), ("MemcpyHtoDAsync", H2D), ("MemcpyD2H", D2H), ("MemcpyDtoHAsync", D2H), ("MemcpyD2D", D2D),
     ("MemcpyDtoDAsync", D2D), ("MemcpyP2P", D2D), ("MemcpyHtoH", D2D), ("MemcpyOther", D2D), ("Memset 2", MEMSET),
     ("UM_BYTES_TRANSFER_HTOD", H2D), ("UM_BYTES_TRANSFER_DTOH", D2H), ("sgemm", KERNEL)],
)  # fmt: skip
def test_what_crosses_and_what_does_not(name: str, kind: int) -> None:
    assert activity_kind(name) == kind


def copying(details: Sequence[str]) -> Trace:
    """Four steps of 1 ms: two copies of 200 us, then 400 us of kernels."""
    rows: list[Row] = []
    for i in range(4):
        at = 1000.0 * i
        rows += [("MemcpyH2D", at, 200, 0), ("MemcpyH2D", at + 200, 200, 0), ("gemm", at + 400, 400, 0)]
    host = plane("/host:CPU", {"python/1": steps(4)})
    return trace_of(host, gpu(rows, details))


def test_pageable_copies_are_told_from_those_of_locked_memory() -> None:
    found = copying([PAGEABLE.format(1_000_000), PINNED.format(3_000_000)] * 4)
    assert found.device is not None
    copies = found.device.copies["h2d"]
    assert (copies.count, copies.bytes) == (2.0, 4e6)
    assert copies.pageable is not None
    assert copies.pageable.bytes == 1e6
    assert copies.pageable.ms == pytest.approx(0.2)
    assert copies.pageable.exposed_ms == pytest.approx(0.2)


def test_pageable_copies_that_the_step_waits_for_are_a_cause() -> None:
    found = diagnose_trace(copying([PAGEABLE.format(500_000)] * 8))
    (mine,) = [d for d in found.diagnoses if d.cause == "transfer/small-copies"]
    assert "100% of their 1 MB from pageable memory, at 2.5 GB/s" in mine.evidence.says
    # Beside the step all of it hides behind the rest, which takes longer.
    assert mine.saving.before_ms - mine.saving.after_ms == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize("detail", ["size:{} dest:0 async:1", "kind_src:unknown kind_dst:device size:{} dest:0"])
def test_where_the_memory_is_untold_nothing_is_called_healthy(detail: str) -> None:
    found = diagnose_trace(copying([detail.format(500_000)] * 8))
    assert "transfer/small-copies" in {u.cause for u in found.unchecked}
    assert "transfer/small-copies" in diagnose_trace(copying([PINNED.format(500_000)] * 8)).healthy


# ---- what is no work -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Memory pageable", "Memory device", "UM_CPU_PAGE_FAULT", "BUFFER_FLUSH"])
def test_what_lies_on_a_stream_and_is_no_work(name: str) -> None:
    rows: list[Row] = [("gemm", 1000.0 * i, 300, 0) for i in range(4)]
    found = trace_of(plane("/host:CPU", {"python/1": steps(4)}), gpu([*rows, (name, 0, 4000, 0)]))
    assert found.device is not None
    assert found.device.kernels == 1
    assert found.device.busy_ms == pytest.approx(0.3)


def test_a_stream_that_is_called_after_the_profilers_own_overhead() -> None:
    rows: list[Row] = [("gemm", 1000.0 * i, 300, 0) for i in range(4)]
    rows.append(("BUFFER_FLUSH", 500, 400, 0))
    found = trace_of(plane("/host:CPU", {"python/1": steps(4)}), gpu(rows, line="CUPTI overhead"))
    assert found.device is not None
    assert found.device.busy_ms == pytest.approx(0.3)


# ---- dropped events ------------------------------------------------------------------------------------------------

WARNING = "Detected GPU events dropped on host: Profiler has collected 9 driver events and 4 device events. "
LOST = nested(3, (WARNING + "1234 events dropped because total device(GPU) events reaches maximum;").encode())


def test_dropped_events_are_said() -> None:
    host = plane("/host:CPU", {"python/1": [("f:MatMul", 0, 1, 0)]},
                 extra=nested(6, number(1, 5), number(4, 1234)))  # fmt: skip
    assert "the profiler dropped 1,234 events" in notes_of(host)
    assert "the profiler dropped 1,234 events" in notes_of(
        plane("/host:CPU", {"python/1": [("f:MatMul", 0, 1, 0)]}), LOST
    )
    assert "dropped" not in notes_of(plane("/host:CPU", {"python/1": [("f:MatMul", 0, 1, 0)]}))


def test_steps_whose_events_were_dropped_are_not_called_idle() -> None:
    """Ten steps, of which the device's events end in the fifth."""
    host = plane("/host:CPU", {"python/1": steps(10)})
    rows: list[Row] = [*(("gemm", 1000.0 * i, 900.0, 0) for i in range(4)), ("gemm", 4000.0, 200.0, 0)]
    whole = trace_of(host, gpu(rows), LOST)
    assert len(whole.steps) == 4
    assert whole.device is not None
    assert whole.device.busy_ms == pytest.approx(0.9)
    assert len(trace_of(host, gpu(rows)).steps) == 8


def test_a_copy_that_outlasts_the_last_step_is_hidden_by_the_kernels_behind_it() -> None:
    rows: list[Row] = [("gemm", 0, 900, 0), ("gemm", 1000, 900, 0), ("MemcpyH2D", 1900, 500, 0), ("gemm", 2000, 900, 0)]
    device = trace_of(plane("/host:CPU", {"python/1": steps(2)}), gpu(rows, [PINNED.format(8)])).device
    assert device is not None
    assert device.copies["h2d"].exposed_ms == pytest.approx(0.1 / 2)


def test_a_profile_without_steps_says_so_and_speaks_of_none() -> None:
    """Kernels of which none comes twice, and nothing of the host: idle for most of the profile."""
    trace = trace_of(gpu([(f"kernel_{i}", 1000.0 * i + i * i, 100.0 + i, 0) for i in range(40)]))
    assert "no steps were found" in trace.facts["notes"][0]
    findings = diagnose_trace(trace)
    said = headline.headline_for(trace, findings, verdicts.run_verdict(trace, findings))
    assert not [
        note for note in notes.checkup_notes(trace, findings) if "a step here" in note or "wait for input" in note
    ]
    assert "of the profile's" in said
    assert "step" not in said


@pytest.mark.parametrize("count", [3, 4, 5])
def test_a_last_turn_whose_input_lies_outside_is_not_a_step(count: int) -> None:
    """Turns of 10 ms, told by their kernels alone: these come after 6.4 ms, and behind the last ones nothing does."""
    rows: list[Row] = [(n, 10_000.0 * i + at, 1700, 0) for i in range(count) for n, at in (("a", 6400), ("b", 8200))]
    assert trace_of(gpu(rows)).step_ms == pytest.approx(10)


@pytest.mark.parametrize(
    ("count", "said"), [(1, "the profile has only one step"), (3, "the profile has only 3 steps"), (20, None)]
)
def test_few_steps_are_answered_and_said(count: int, said: str | None) -> None:
    rows: list[Row] = [("gemm", 1000.0 * i, 900, 0) for i in range(count)]
    found = trace_of(plane("/host:CPU", {"python/1": steps(count)}), gpu(rows))
    assert len(found.steps) == (count if count < 5 else count - 2)
    assert diagnose_trace(found).healthy
    notes = [note for note in found.facts["notes"] if note.startswith("the profile has only")]
    assert [note[: len(said or "")] for note in notes] == ([said] if said else [])


# ---- devices without a timeline ------------------------------------------------------------------------------------

USED = plane("/host:CPU", {"python/1": [("f:MatMul", 0, 1, 0)]}, extra=entry(5, 9, "GPU_0_bfc"))
UNUSED = plane("/host:CPU", {"python/1": [("f:MatMul", 0, 1, 0)]})


def test_a_gpu_without_a_timeline_is_said_with_its_remedy() -> None:
    said = notes_of(USED)
    assert "the run used a GPU" in said
    assert "CUPTI" in said
    assert "LD_LIBRARY_PATH" in said
    assert "NVreg_RestrictProfilingToAdminUsers" in said
    assert "the run used a GPU" not in notes_of(UNUSED)


@pytest.mark.parametrize(
    ("error", "remedy", "other"),
    [
        ("h: Insufficient privilege to run libcupti (you need root permission).", "NVreg_Restrict", "LD_LIBRARY"),
        ("h: Failed to load libcupti (is it installed and accessible?)", "LD_LIBRARY", "NVreg_Restrict"),
    ],
)
def test_the_profilers_own_error_tells_which_it_was(error: str, remedy: str, other: str) -> None:
    said = notes_of(UNUSED, nested(2, error.encode()))
    assert "the run used a GPU" in said
    assert remedy in said
    assert other not in said


# ---- command buffers -----------------------------------------------------------------------------------------------


def graphs(shown: bool) -> list[bytes]:
    """Four steps: a kernel, then a graph that is launched at once and whose kernels may be shown."""
    rows: list[Row] = []
    calls: list[Row] = []
    for i in range(4):
        at, id_ = 1000.0 * i, 10 * i + 1
        calls += [("cuLaunchKernel", at, 5, id_), ("cuGraphLaunch (CudaGraph:7)", at + 20, 5, id_ + 1)]
        rows += [("gemm", at + 10, 90, id_)] + ([("gemm", at + 110, 800, id_ + 1)] if shown else [])
    return [plane("/host:CPU", {"python/1": sorted([*steps(4), *calls], key=lambda r: r[1])}), gpu(rows)]


def test_kernels_of_a_graph_that_are_shown() -> None:
    found = trace_of(*graphs(shown=True))
    assert "4 launches of command buffers" in notes_of(*graphs(shown=True))
    assert found.device is not None
    assert found.device.idle.get("unattributed", 0.0) == 0


def test_what_hidden_graphs_may_have_done_is_not_called_idle_for_a_reason() -> None:
    found = trace_of(*graphs(shown=False))
    assert "4 of 4 launches of command buffers (CUDA or HIP graphs) have no kernel" in notes_of(*graphs(shown=False))
    assert found.device is not None
    assert found.device.idle["unattributed"] == pytest.approx(0.9, abs=0.02)
    told = diagnose_trace(found)
    assert told.diagnoses == ()
    assert {"compute/compute-bound", "host/launch-bound", "compute/full-precision"} <= {u.cause for u in told.unchecked}


def test_a_graph_that_is_one_event_hides_what_it_computes() -> None:
    rows: list[Row] = [("CudaGraphExec:7", 1000.0 * i, 900, 0) for i in range(4)]
    planes = [plane("/host:CPU", {"python/1": steps(4)}), gpu(rows)]
    assert "4 runs of command buffers (CUDA or HIP graphs) hide their kernels" in notes_of(*planes)
    unchecked = {u.cause for u in diagnose_trace(trace_of(*planes)).unchecked}
    assert {"compute/full-precision", "compute/unaligned-shapes"} <= unchecked


def test_the_kinds_of_launches_are_told_apart() -> None:
    row: list[Row] = [("cudaLaunchKernel", 0, 1, 5)]
    assert "command buffers" not in notes_of(plane("/host:CPU", {"python/1": row}))
    assert "1 launches of command buffers" in notes_of(plane("/host:CPU", {"python/1": [("cudaGraphLaunch", 0, 1, 5)]}))
