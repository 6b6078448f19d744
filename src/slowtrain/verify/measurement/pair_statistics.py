"""The interval of a few ratios, which stays valid although it is looked at after every pair.

A pair is one process of the baseline and one of the candidate, run after each other. Its value is the logarithm of the
ratio of their times. Steps inside one process are not independent, so only processes count. The interval is Student's,
of the mean logarithm, at a level at which all looks together err in at most 5 % of comparisons (Pocock's boundary,
"Group sequential methods in the design and analysis of clinical trials", Biometrika 64, 1977). Below six pairs both
sides are separate samples (Welch): pairing halves the degrees of freedom, which then costs more than the shared
influence of the machine.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LOOK_PAIRS = (3, 4, 5, 6, 8, 10, 12, 15, 20)  # numbers of pairs after which the interval is looked at
MIN_PAIRED = 6  # number of pairs from which on their differences are the sample
# The level of each look. In 40,000 simulated comparisons of equal normal variables at most 5.2 % were outside at any of
# the nine looks, for any correlation of a pair and any two spreads (tests/verify).
LOOK_LEVEL = 0.009
MIN_PROVEN_SPEEDUP = 1.02  # a smaller speed-up is no reason to change a script
BETTER, NO_BETTER, CANNOT_TELL = "better", "no better", "cannot tell"


@dataclass(frozen=True)
class SpeedupRatio:
    """The speed-up: geometric mean of the pairs' ratios, with its interval (95 % over all looks)."""

    speedup: float
    low: float
    high: float
    pairs: int

    @property
    def outcome(self) -> str:
        if self.low > 1.0 and self.speedup >= MIN_PROVEN_SPEEDUP:
            return BETTER
        return NO_BETTER if self.high < MIN_PROVEN_SPEEDUP else CANNOT_TELL


def speedup_ratio(pairs: Sequence[tuple[float, float]]) -> SpeedupRatio:
    """The ratio of ``(baseline, candidate)`` times; needs one pair. Below three pairs the interval is unbounded."""
    before, after = [math.log(b) for b, _ in pairs], [math.log(a) for _, a in pairs]
    mean, n = statistics.fmean(before) - statistics.fmean(after), len(pairs)
    if n < LOOK_PAIRS[0]:
        return SpeedupRatio(math.exp(mean), 0.0, math.inf, n)
    half = _paired_half_interval(before, after) if n >= MIN_PAIRED else _welch_half_interval(before, after)
    # e^700 is near the largest floating-point number.
    return SpeedupRatio(math.exp(mean), math.exp(max(mean - half, -700)), math.exp(min(mean + half, 700)), n)


def _paired_half_interval(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the interval, from the differences of pairs."""
    spread = statistics.stdev(b - a for b, a in zip(before, after, strict=True))
    return student_quantile(1 - LOOK_LEVEL / 2, len(before) - 1) * spread / math.sqrt(len(before))


def _welch_half_interval(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the interval, from two samples with separate spreads (Welch and Satterthwaite)."""
    n = len(before)
    one, other = statistics.variance(before) / n, statistics.variance(after) / n
    if one + other == 0.0:
        return 0.0
    freedom = (one + other) ** 2 / ((one**2 + other**2) / (n - 1))
    return student_quantile(1 - LOOK_LEVEL / 2, max(int(freedom), 1)) * math.sqrt(one + other)


def is_decided(found: SpeedupRatio) -> bool:
    """Whether no further pair is needed: the answer is clear, or no looks are left."""
    return found.pairs >= LOOK_PAIRS[-1] or (found.pairs in LOOK_PAIRS and found.outcome != CANNOT_TELL)


@functools.lru_cache(maxsize=256)
def student_quantile(probability: float, freedom: int) -> float:
    """Student's t with ``freedom`` degrees of freedom: the value below which ``probability`` (above 0.5) lies."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 + student_probability(middle, freedom) / 2 < probability else (low, middle)
    return (low + high) / 2


def student_probability(t: float, freedom: int) -> float:
    """The probability of -t to t, by Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(1 + odd, freedom - 2, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
