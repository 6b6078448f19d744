"""What the machine did while steps got slower: told where it is worth what they lost, not where it only moved too."""

from __future__ import annotations

import re

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.causes.drift.growing_step import GrowingStep
from slowtrain.model import Category, Evidence
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

# Minutes in which all of a step gets slower, in the end by twice.
ALIKE = """
    step    11111111
    python  pp......
    device  ..kkkkkk
    @repeat 8000
    @more python=0.0003 device=0.0009
    @fact usable_cores=2 machine={"cpu":{"logical_cores":2}}
"""


def growth_evidence(trace: Trace) -> Evidence | None:
    finding = GrowingStep().find(trace)
    return None if finding is None else GrowingStep().evidence(trace, finding)


def sampled(trace: Trace, **figures: tuple[float, float]) -> Trace:
    """With figures of the machine that go from one value to another."""
    at = np.linspace(0, float(trace.steps.end_ms[-1]), 400)
    columns = {key: np.linspace(*ends, 400) for key, ends in figures.items()}
    return replace(trace, samples={"time_ms": at, **columns})


def crowded(trace: Trace, first: float, last: float, own: float, **more: tuple[float, float]) -> Trace:
    """Two processors, of which this process has ``own``, and others take from ``first`` to ``last``."""
    end_s = float(trace.steps.end_ms[-1]) / 1e3
    busy = ((first + own) / 2, (last + own) / 2)
    return sampled(trace, cpu_mean_share=busy, process_cpu_seconds=(0.0, own * end_s), **more)


def kind_of(trace: Trace) -> tuple[str, str]:
    found = step_growth.find_step_growth(trace)
    assert found is not None
    return found[1].kind, found[1].says


@pytest.mark.parametrize(
    ("first", "last", "own", "kind"),
    [
        (0.2, 1.2, 0.8, "others"),  # of two processors 1.8 were left, then 0.8: steps of twice the time
        (0.2, 0.5, 1.5, "call"),  # 1.8, then 1.5: a sixth of it
        (0.0, 0.6, 0.3, "call"),  # a processor is idle in the end
    ],
)
def test_others_are_blamed_for_what_they_can_have_taken(first: float, last: float, own: float, kind: str) -> None:
    assert kind_of(crowded(parse_drawing(ALIKE), first, last, own))[0] == kind


def test_what_the_hypervisor_gave_away_is_no_process() -> None:
    kind, says = kind_of(crowded(parse_drawing(ALIKE), 0.2, 1.2, 0.8, steal_share=(0.0, 0.5)))
    assert kind == "stolen"
    assert re.fullmatch(r"the hypervisor gave \d% of the cores' time to others at first and 4\d% at the end", says)


def rising(trace: Trace, key: str, each: float) -> Trace:
    """A figure that rises with each step, by ever more: by ``each`` in the last one."""
    at = np.linspace(0, float(trace.steps.end_ms[-1]), 400)
    done = np.searchsorted(trace.steps.end_ms, at) / len(trace.steps)
    return replace(trace, samples={"time_ms": at, key: each * len(trace.steps) * done**2 / 2})


@pytest.mark.parametrize(
    ("key", "each", "kind", "said"),
    [
        (
            "throttled_seconds",
            0.01,
            "quota",
            r"the container's quota stopped the process for \d\S* ms of a step at first and 8",
        ),
        ("throttled_seconds", 0.001, "call", ""),
        ("major_faults", 3.0, "paging", r"a step waited for 0\.3\d* memory pages from a disk at first and for 2\.[56]"),
        ("major_faults", 0.05, "call", ""),
    ],
)
def test_what_a_step_was_held_up_by(key: str, each: float, kind: str, said: str) -> None:
    found, says = kind_of(rising(parse_drawing(ALIKE), key, each))
    assert found == kind
    assert re.match(said, says)


@pytest.mark.parametrize(("last", "kind"), [(0.9, "disk"), (0.15, "call")])
def test_a_disk_is_blamed_for_the_time_that_cores_waited_for_it(last: float, kind: str) -> None:
    """On one processor that waits 15 % of 16 ms, 2.4 ms, steps do not take 8 ms more by it."""
    trace = replace(parse_drawing(ALIKE), facts={"usable_cores": 1.0})
    assert kind_of(sampled(trace, iowait_share=(0.0, last)))[0] == kind


@pytest.mark.parametrize(("last", "kind"), [(700.0, "clock"), (1300.0, "call")])
def test_a_gpu_that_is_held_down(last: float, kind: str) -> None:
    assert kind_of(sampled(parse_drawing(ALIKE), gpu_sm_mhz_0=(1500.0, last)))[0] == kind


WAITS = """
    step    11111
    input   i....
    device  .kkkk
    @repeat 8000
    @more input=0.001
    @fact usable_cores=2 machine={"cpu":{"logical_cores":2}}
    @producer rows ms=4 calls=1 line=9 hot=11
    @span pyfunc rows start=0 end=0.5 detail={"qualname":"rows","user":true,"file":"train.py","line":9}
"""


def made_by(trace: Trace, growing: bool) -> Trace:
    """A generator that makes a batch while each step runs, in all of what it waits, or always as quickly."""
    spans, steps = trace.lanes["pyfunc"], trace.steps
    took = trace.categories[Category.INPUT] if growing else np.full(len(steps), 0.5)
    ones = np.ones(len(steps), dtype=np.int64)
    made = replace(
        spans, start_ms=steps.start_ms, end_ms=steps.start_ms + took, name=spans.name[0] * ones, thread=ones, value=ones
    )
    return replace(trace, lanes={**trace.lanes, "pyfunc": made})


@pytest.mark.parametrize("others", [0.0, 1.1])
def test_a_generator_that_takes_longer_is_named_also_where_others_came_meanwhile(others: float) -> None:
    """Waiting for it makes steps two and a half times as long, while what computes takes as long as ever."""
    trace = crowded(made_by(parse_drawing(WAITS), growing=True), 0.1, 0.1 + others, 0.9)
    kind, says = kind_of(trace)
    assert kind == str(Category.INPUT)
    assert re.search(r"; `rows`, which makes the input, took 2\S* ms a step at first and 8\S* ms at the end$", says)
    evidence = growth_evidence(trace)
    assert evidence is not None
    assert [p.line for p in evidence.where] == [11]


def test_a_generator_that_is_as_quick_as_ever_is_not_named() -> None:
    quick = made_by(parse_drawing(WAITS), growing=False)
    assert kind_of(crowded(quick, 0.1, 0.1, 0.9))[1].endswith("at the end")
    assert "rows" not in kind_of(crowded(quick, 0.1, 0.1, 0.9))[1]
    assert kind_of(crowded(quick, 0.1, 1.5, 0.5))[0] == "others"
