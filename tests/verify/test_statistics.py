"""The interval of a few ratios: against tables, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slowtrain.verify.measurement import paired_trial
from slowtrain.verify.measurement.paired_trial import (
    BETTER,
    CANNOT_TELL,
    LOOK_LEVEL,
    LOOK_PAIRS,
    MIN_PAIRED,
    MIN_PROVEN_SPEEDUP,
    NO_BETTER,
    is_decided,
    speedup_ratio,
    student_quantile,
)

MOST_WRONG = 0.052  # 5 %, and what 40,000 draws may be off by (two standard errors)
DRAWS = 40_000


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [  # tables of Student's t
        (0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 3, 3.1824), (0.975, 4, 2.7764), (0.975, 10, 2.2281),
        (0.975, 30, 2.0423), (0.995, 2, 9.9248), (0.995, 5, 4.0321), (0.995, 19, 2.8609), (0.9995, 1, 636.6192),
        (0.95, 7, 1.8946), (0.75, 2, 0.8165), (0.975, 1000, 1.9623),
    ],
)  # fmt: skip
def test_quantiles(probability: float, freedom: int, value: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(value, abs=1e-4 * max(1.0, value / 10))
    assert paired_trial.student_probability(value, freedom) == pytest.approx(2 * probability - 1, abs=1e-4)


def simulated(together: float, spreads: tuple[float, float], seed: int) -> float:
    """The share of comparisons of equals in which at any look 1 lies outside, with the formulas of ``ratio``."""
    draw = np.random.default_rng(seed)
    shared = draw.normal(0, together, (DRAWS, LOOK_PAIRS[-1]))
    before = shared + draw.normal(0, spreads[0], (DRAWS, LOOK_PAIRS[-1]))
    after = shared + draw.normal(0, spreads[1], (DRAWS, LOOK_PAIRS[-1]))
    outside = np.zeros(DRAWS, bool)
    for n in LOOK_PAIRS:
        b, a = before[:, :n], after[:, :n]
        mean = b.mean(1) - a.mean(1)
        if n >= MIN_PAIRED:
            half = student_quantile(1 - LOOK_LEVEL / 2, n - 1) * (b - a).std(1, ddof=1) / math.sqrt(n)
        else:
            one, two = b.var(1, ddof=1) / n, a.var(1, ddof=1) / n
            freedom = (one + two) ** 2 / ((one**2 + two**2) / (n - 1))
            half = np.array([student_quantile(1 - LOOK_LEVEL / 2, int(f)) for f in freedom]) * np.sqrt(one + two)
        outside |= abs(mean) > half
    return float(outside.mean())


@pytest.mark.parametrize("together", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("spreads", [(0.02, 0.02), (0.02, 0.08), (0.08, 0.02)])
def test_all_looks_together_err_in_a_twentieth(together: float, spreads: tuple[float, float]) -> None:
    assert simulated(together, spreads, seed=1) <= MOST_WRONG


def test_the_simulation_is_of_the_code() -> None:
    """The same interval from ``ratio`` and from the formulas above, look by look."""
    draw = np.random.default_rng(3)
    for n in LOOK_PAIRS:
        b, a = draw.normal(0, 0.05, n), draw.normal(0, 0.02, n)
        found = speedup_ratio([(math.exp(x), math.exp(y)) for x, y in zip(b, a, strict=True)])
        if n >= MIN_PAIRED:
            half = student_quantile(1 - LOOK_LEVEL / 2, n - 1) * (b - a).std(ddof=1) / math.sqrt(n)
        else:
            one, two = b.var(ddof=1) / n, a.var(ddof=1) / n
            freedom = (one + two) ** 2 / ((one**2 + two**2) / (n - 1))
            half = student_quantile(1 - LOOK_LEVEL / 2, int(freedom)) * math.sqrt(one + two)
        assert math.log(found.high) - math.log(found.speedup) == pytest.approx(half)
        assert math.log(found.speedup) - math.log(found.low) == pytest.approx(half)


def test_the_interval_covers() -> None:
    """At one look, of pairs that differ by a fifth."""
    draw = np.random.default_rng(2)
    inside = 0
    for _ in range(2000):
        pairs = [(1.2 * math.exp(draw.normal(0, 0.03)), math.exp(draw.normal(0, 0.03))) for _ in range(8)]
        found = speedup_ratio(pairs)
        inside += found.low <= 1.2 <= found.high
    assert inside / 2000 >= 0.985  # one look alone errs in 0.9 %


def test_few_pairs_have_no_interval() -> None:
    for n in (1, 2):
        found = speedup_ratio([(2.0, 1.0)] * n)
        assert found.speedup == pytest.approx(2.0)
        assert (found.low, found.high, found.outcome) == (0.0, math.inf, CANNOT_TELL)
        assert not is_decided(found)


def exact(speedup: float, n: int, scatter: float = 0.001) -> paired_trial.SpeedupRatio:
    return speedup_ratio([(speedup * math.exp(scatter * (-1) ** i), 1.0 + scatter * (i % 3)) for i in range(n)])


def test_the_outcomes() -> None:
    assert exact(2.0, 6).outcome == BETTER
    assert exact(0.5, 6).outcome == NO_BETTER
    assert exact(1.0, 20).outcome == NO_BETTER
    assert exact(1.01, 20).outcome == NO_BETTER  # surely faster, by less than anybody would change a script for
    assert exact(1.1, 6, scatter=0.2).outcome == CANNOT_TELL
    assert MIN_PROVEN_SPEEDUP == 1.02


def test_when_it_is_decided() -> None:
    for n in range(1, LOOK_PAIRS[-1] + 1):
        assert is_decided(exact(2.0, n)) == (n in LOOK_PAIRS)
        assert is_decided(exact(1.1, n, scatter=0.5)) == (n == LOOK_PAIRS[-1])
    assert is_decided(exact(1.1, LOOK_PAIRS[-1] + 3, scatter=0.5))


def test_extremes() -> None:
    assert speedup_ratio([(1e150, 1e-150)] * 3).speedup > 1e200
    assert speedup_ratio([(1.0, 1.0)] * 3).low == 1.0
