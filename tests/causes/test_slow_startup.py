"""What is said to do about a long start follows from what was found, not from the words that it is told in."""

from __future__ import annotations

import pytest

from slowtrain.causes.startup.slow_startup import SlowStartup, unrolled_start

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

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
    trace, cause = parse_drawing(TRACED.replace("NAME", name)), SlowStartup()
    finding = cause.find(trace)
    assert finding is not None
    assert name in cause.evidence(trace, finding).says
    assert [p.says for p in cause.cures(trace, finding)] == ["trace it once, with None for the sizes that change"]


def test_each_drawn_start_has_a_cure_of_its_own() -> None:
    cause = SlowStartup()
    found = []
    for drawing in cause.fires:
        trace = parse_drawing(drawing)
        finding = cause.find(trace)
        assert finding is not None
        found.append(next(iter(cause.cures(trace, finding))).says.split(":")[0].split(",")[0])
    layer = "leave out unroll=True"
    once, jit = "trace it once", "leave jit_compile=True out of runs this short"
    looped = "let the graph loop itself"
    by_default, one_size = (
        "compile(...",
        "a number of samples that the batch size divides spares a compilation of 1.5 s; the",
    )
    assert found[:7] == [jit, layer, layer, layer, once, looped, looped]
    assert found[7] == by_default
    assert found[8].startswith(one_size)
    assert len(found) == 9


def many_layers(listed: int) -> str:
    """A model of 90 matrices, as ``fit`` traces it: twice. The recording lists so many of its weights."""
    weights = ",".join('{"class":"Dense","size":9216,"shape":[96,96]}' for _ in range(listed))
    return f"""
    step    1111111111
    device  kkkkkkkkkk
    @phase import=1800 compile=6000
    @event loop name=fit start=0 end=9600 data={{"weights":[{weights}]}}
    @event trace name=multi_step_on_iterator start=0 end=6000 data={{"nth":1,"training":true,"trace_ns":5000000000,
    & "graph":{{"ops":9000,"types":{{"ReadVariableOp":900,"AssignVariableOp":100,"AssignSubVariableOp":360}},
    & "matrix":{{"float32":540}}}}}}
    """


@pytest.mark.parametrize("listed", [50, 90])
def test_a_model_of_many_layers_is_no_loop_written_out(listed: int) -> None:
    assert unrolled_start(parse_drawing(many_layers(listed)), lambda _trace, _files: 0) is None
