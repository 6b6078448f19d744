"""What is said to do about a long start follows from what was found, not from the words that it is told in."""

from __future__ import annotations

import pytest

from slowtrain.causes.startup.slow_startup import SlowStartup
from slowtrain.trace.drawn import drawn

TRACED = """
step    1111111111
device  kkkkkkkkkk
@repeat 1000
@steps start=6000
@phase import=1800 compile=4000
@event trace name=NAME start=0 end=1500 data={"nth":1,"number":1,"training":true,"site":["train.py",9]}
@event trace name=NAME start=1500 end=3000 data={"nth":2,"number":1,"training":true,"site":["train.py",9]}
@event trace name=NAME start=3000 end=4500 data={"nth":3,"number":1,"training":true,"site":["train.py",9]}
"""


@pytest.mark.parametrize("name", ["step", "step_without_XLA"])
def test_a_function_may_have_any_name(name: str) -> None:
    trace, cause = drawn(TRACED.replace("NAME", name)), SlowStartup()
    evidence = cause.examine(trace)
    assert evidence is not None
    assert name in evidence.says
    assert [p.says for p in cause.prescribe(trace, evidence)] == ["trace it once, with None for the sizes that change"]


def test_each_drawn_start_has_a_cure_of_its_own() -> None:
    cause = SlowStartup()
    found = []
    for drawing in cause.fires:
        trace = drawn(drawing)
        evidence = cause.examine(trace)
        assert evidence is not None
        found.append(next(iter(cause.prescribe(trace, evidence))).says.split(":")[0].split(",")[0])
    layer = "leave out unroll=True"
    once, jit = "trace it once", "leave jit_compile=True out of runs this short"
    looped = "let the graph loop itself"
    assert found == [jit, layer, layer, layer, once, looped, looped]
