"""Calls that are short, and calls that are long for other processes have the cores meanwhile."""

from __future__ import annotations

import pytest

from slowtrain.causes.input.per_element_map import PerElementMap

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


@pytest.mark.parametrize(("call_us", "crowded", "found"), [(40, False, True), (90, False, False), (90, True, True)])
def test_a_call_may_take_longer_beside_other_processes(call_us: int, crowded: bool, found: bool) -> None:
    share = "cpu_mean_share=1" if crowded else "cpu_mean_share=0.5"
    trace = parse_drawing(f"""
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact usable_cores=2
        @sample {share} process_cpu_seconds=0
        @pipeline Slices ms=0.2 elements=100 > Map ms={call_us / 10} elements=100 parallelism=1 line=12 > Batch ms=0.2
        > Prefetch buffer=2
    """)
    assert (PerElementMap().find(trace) is not None) is found
