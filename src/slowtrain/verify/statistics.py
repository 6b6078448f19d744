"""What a few ratios are worth: an interval that stays true although somebody looked after every pair.

A pair is one process of the baseline and one of the candidate, run after each other; its value is the logarithm of
the ratio of their times. Steps inside one process are not independent, so that only processes count. The interval is
Student's, of the mean logarithm, at a level so small that all looks together err in at most 5 % of comparisons
(Pocock's boundary, "Group sequential methods in the design and analysis of clinical trials", Biometrika 64, 1977).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LOOKS = (3, 4, 5, 6, 8, 10, 12, 15, 20)  # pairs after which it is decided
# The level of each look: of 40,000 simulated comparisons of equal normal variables 4.9 % were outside at any of the
# nine looks (tests/verify/test_statistics.py counts again).
LEVEL = 0.009
LEAST = 1.02  # a smaller speed-up is no reason to change a script
BETTER, NO_BETTER, UNKNOWN = "better", "no better", "cannot tell"


@dataclass(frozen=True)
class Ratio:
    """How many times as fast: the geometric mean of the pairs' ratios, with its interval (95 % over all looks)."""

    speedup: float
    low: float
    high: float
    pairs: int

    @property
    def outcome(self) -> str:
        if self.low > 1.0 and self.speedup >= LEAST:
            return BETTER
        return NO_BETTER if self.high < LEAST else UNKNOWN


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of ``(baseline, candidate)`` times, at least one; the interval has no bounds below three pairs."""
    logs = [math.log(before / after) for before, after in pairs]
    mean = statistics.fmean(logs)
    if len(logs) < LOOKS[0]:
        return Ratio(math.exp(mean), 0.0, math.inf, len(logs))
    half = quantile(1 - LEVEL / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    # Above e^700 there are no numbers; nobody's script gets that much faster.
    return Ratio(math.exp(mean), math.exp(max(mean - half, -700)), math.exp(min(mean + half, 700)), len(logs))


def decided(found: Ratio) -> bool:
    """Whether no further pair is needed: the answer is there, or there are no more looks."""
    return found.pairs >= LOOKS[-1] or (found.pairs in LOOKS and found.outcome != UNKNOWN)


@functools.lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """Student's t with ``freedom`` degrees of freedom: the value below which ``probability`` (above a half) lies."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 + within(middle, freedom) / 2 < probability else (low, middle)
    return (low + high) / 2


def within(t: float, freedom: int) -> float:
    """The probability of -t to t, by Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(1 + odd, freedom - 2, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
