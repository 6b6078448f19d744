"""The replay holds its sums whatever the trace: property tests over drawn steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.model import Category
from slowtrain.trace.drawn import drawn
from slowtrain.whatif import Drop, Skip, Stretch, Supply, price, replay

LETTERS = {"i": "input", "d": "device", "p": "python", "r": "d2h", ".": None}
steps = st.lists(st.text(alphabet="".join(LETTERS), min_size=1, max_size=12), min_size=1, max_size=6)
drops = st.builds(
    lambda category, ms: Drop({category: ms}), st.sampled_from([Category.PYTHON, Category.READBACK, Category.DEVICE]),
    st.floats(0, 20),
)  # fmt: skip
remedies = st.lists(
    st.one_of(
        drops,
        st.builds(Supply, st.floats(0, 1), st.booleans()),
        st.builds(Skip, st.floats(0, 1000)),
        st.builds(Stretch, st.floats(0.01, 1), st.floats(0.1, 50)),
    ),
    max_size=4,
)


def drawing(turns: list[str]) -> str:
    """One row a category; a step's marks alternate so that neighbours are told apart."""
    rows = {"step": " ".join(str(i % 2 + 1) * len(turn) for i, turn in enumerate(turns))}
    for letter, lane in LETTERS.items():
        if lane:
            rows[lane] = " ".join("".join("x" if c == letter else "." for c in turn) for turn in turns)
    return "\n".join(f"{lane} {marks}" for lane, marks in rows.items())


@given(steps)
def test_without_remedies_nothing_changes(turns: list[str]) -> None:
    trace = drawn(drawing(turns))
    after = replay(trace, [])
    assert after.step_ms == pytest.approx(trace.step_ms)
    assert after.run_ms == pytest.approx(trace.run_ms)


@given(steps, remedies)
def test_a_replay_never_lengthens_and_never_vanishes(
    turns: list[str], several: list[Drop | Supply | Skip | Stretch]
) -> None:
    trace = drawn(drawing(turns))
    for scope in ("step", "run"):
        saving = price(trace, several, scope)
        assert 0 <= saving.after_ms <= saving.before_ms + 1e-9
        assert 1 <= saving.low <= saving.high + 1e-9
        assert math.isfinite(saving.high)
        assert saving.low - 1e-9 <= saving.speedup


@given(steps, remedies)
def test_together_saves_at_least_the_best_and_at_most_the_sum(
    turns: list[str], several: list[Drop | Supply | Skip | Stretch]
) -> None:
    trace = drawn(drawing(turns))
    alone = [price(trace, [r], "run").ms for r in several]
    together = price(trace, several, "run").ms
    assert together <= sum(alone) + 1e-6 * max(trace.run_ms, 1)
    assert together >= max(alone, default=0.0) - 1e-6 * max(trace.run_ms, 1)


def test_two_causes_of_the_same_moment_are_paid_once() -> None:
    trace = drawn("step 1111111111\npython pppp......\ndevice ....kkkkkk")
    both = [Drop({Category.PYTHON: 4.0}), Drop({Category.PYTHON: 3.0})]
    assert price(trace, both, "step").ms == pytest.approx(4.0)


def test_what_is_made_beside_the_step_costs_only_what_exceeds_it() -> None:
    trace = drawn("step 1111111111\ninput iiii......\ndevice ....kkkkkk")
    assert price(trace, [Supply(beside=True)], "step").after_ms == pytest.approx(6.0)
    slow = drawn("step 1111111111\ninput iiiiii....\ndevice ......kkkk")
    assert price(slow, [Supply(beside=True)], "step").after_ms == pytest.approx(6.0)
