"""What packed elements are predicted to save of a step, by replaying drawn traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slowtrain.model import Place
from slowtrain.pack import script_plan

from ..drawn_trace import DRAWN_FILE, parse_drawing  # noqa: TID252  tests are no package
from .test_plan_files import PLAN

STEP = """
    step    1111111111
    input   iiiiiiii..
    device  ........kk
    @fact usable_cores=4 devices=[{"kind":"GPU"}]
"""
AHEAD = "@pipeline Slices ms=0.1 elements=32 > Map ms=7.9 elements=32 line=12 > Batch ms=0.1 > Prefetch"
IN_STEP = "@pipeline Slices ms=0.1 elements=32 > Map ms=7.9 elements=32 line=12 > Batch ms=0.0"


@pytest.mark.parametrize(
    ("pipeline", "ready_us", "block", "speedup"),
    [
        (AHEAD, 5.0, 1, 5.0),  # 0.16 ms for a batch: the device sets the pace
        (AHEAD, 156.25, 1, 2.0),  # 5 ms for a batch
        (IN_STEP, 31.25, 1, 5.0),  # the map that reads works ahead, 1 ms beside 2 ms
        (IN_STEP, 31.25, 16, 5.0),
    ],
)
def test_the_slower_of_reading_and_the_rest_of_the_step_decides(
    pipeline: str, ready_us: float, block: int, speedup: float
) -> None:
    trace = parse_drawing(f"{STEP}    {pipeline}\n")
    sample = replace(PLAN.sample, read_us=ready_us, work_us=0.0)
    found = script_plan.packing_saving(trace, Place(DRAWN_FILE, 12), sample, block)
    assert found is not None
    assert found.speedup == pytest.approx(speedup, rel=0.06)


def test_another_line_of_the_script_has_no_price() -> None:
    trace = parse_drawing(f"{STEP}    {AHEAD}\n")
    assert script_plan.packing_saving(trace, Place(DRAWN_FILE, 13), PLAN.sample) is None
