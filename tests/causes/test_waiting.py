"""What waits for bytes, and what waits for something else: the steps wait alike, their reads differ."""

from __future__ import annotations

import pytest

from slowtrain import diagnose
from slowtrain.causes.idle_input_wait import find_idle_input_wait, read_mb_per_s
from slowtrain.causes.input.python_input import PythonInput

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

STORAGE, PYTHON = "input/slow-storage", "input/python-input"
WAITS = """
    step    1111111111
    input   iiiiiiii..
    device  ........kk
    @fact cpu_ms_per_step=2
    @producer fetch ms=9 calls=2 line=9 hot=11
    @pipeline Range ms=0.1 > Map ms=9 elements=2 line=20 detail={"ops":{"PyFunc":1}} > Batch ms=0.1 line=20
    > Prefetch line=20
"""
# For each second of a wait of nine tenths: files, cached or not; what is mapped, which no call reads; I/O wait alone.
READS = ["read_call_bytes=+60e6", "read_call_bytes=0 read_bytes=+1.5e6", "read_call_bytes=+1e3 iowait_share=0.5"]
OTHERWISE = ["read_call_bytes=+20e3", "read_call_bytes=+20e3 read_bytes=0 iowait_share=0.02"]


def outcomes(drawing: str) -> tuple[list[str], list[str]]:
    found = diagnose.diagnose_trace(parse_drawing(drawing))
    both = (STORAGE, PYTHON)
    return [d.cause for d in found.diagnoses if d.cause in both], [u.cause for u in found.unchecked if u.cause in both]


@pytest.mark.parametrize("sample", READS)
def test_what_reads_while_it_waits_waits_for_storage(sample: str) -> None:
    assert outcomes(f"{WAITS}\n@sample {sample}\n@fact machine={{'cpu':{{'logical_cores':2}}}}".replace("'", '"')) == (
        [STORAGE],
        [],
    )


@pytest.mark.parametrize("sample", OTHERWISE)
def test_what_waits_and_reads_next_to_nothing_does_not(sample: str) -> None:
    assert outcomes(f"{WAITS}\n@sample {sample}") == ([PYTHON], [])


def test_it_is_not_called_healthy_where_nobody_counted_bytes() -> None:
    """What it waits for is not known, but that Python makes the batch is, and so is the most that a cure gives."""
    assert outcomes(f"{WAITS}\n@missing reads") == ([PYTHON], [STORAGE])


def test_a_node_that_reads_files_needs_no_counted_bytes() -> None:
    drawing = WAITS.replace("@producer fetch ms=9 calls=2 line=9 hot=11", "").replace("PyFunc", "ReadFile")
    assert outcomes(f"{drawing}\n@sample iowait_share=0.3\n@missing reads") == ([STORAGE], [])


def test_of_several_threads_that_wait_a_batch_is_not_told_to_wait_longer_than_its_step() -> None:
    found = find_idle_input_wait(
        parse_drawing(WAITS.replace("Map ms=9", "Map ms=42").replace("> Prefetch line=20", ""))
    )
    assert found is not None
    assert found.ms <= found.made_ms <= 10


def test_the_larger_of_what_was_read_counts() -> None:
    assert read_mb_per_s(parse_drawing(f"{WAITS}\n@sample read_call_bytes=+2e6 read_bytes=+5e6")) == pytest.approx(5)
    assert read_mb_per_s(parse_drawing(WAITS)) is None


@pytest.mark.parametrize("crowded", [False, True])
def test_python_that_waits_for_a_core_does_not_wait_for_the_world(crowded: bool) -> None:
    """It has four tenths of a core: because it waits for what it reads, or because other processes have the rest."""
    share = "cpu_mean_share=1 process_cpu_seconds=0" if crowded else "cpu_mean_share=0.3 process_cpu_seconds=0"
    trace = parse_drawing(f"""
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact cpu_ms_per_step=4 usable_cores=2
        @sample read_call_bytes=+60e6 {share}
        @producer scans ms=8 calls=1 line=9 hot=11
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
    """)
    assert (PythonInput().find(trace) is not None) is crowded
