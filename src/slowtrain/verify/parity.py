"""Whether a candidate still trains the same: its losses, step by step, against those of the baseline.

With the seeds fixed two baselines give the same losses to the last bit where the framework is deterministic; where
they do not, what they differ by is the measure. Both are of the same seed, so that a difference is the script's own.
Where no step tells a loss, the weights after the same number of steps stand for them.

The most that three baselines differ by is less than the most there is. Of drawn runs (of independent steps, random
walks, one direction) one or more of three candidates was further than that from the nearest baseline in 14 to 25 % of
comparisons, and further than twice as far in 0 to 10 %: so *exact* allows twice (tests/verify).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from slowtrain.figures import counted, plain
from slowtrain.model import Effect
from slowtrain.values import dataclass

T = TypeVar("T")
Losses = Sequence[Mapping[str, float]]
Weights = Sequence[tuple[int, str, float]]  # steps taken, a digest, how far from those after the first step

FEWEST = 5  # steps of both
# Of the mean loss: what a change of the order of random draws or of rounding may shift the mean of the first steps by,
# beyond three standard errors of the steps' own scatter.
TOLERANCE = 0.02
SURE = 3.0
AS_FAR = 2.0  # times as far from the nearest baseline as two baselines from each other: see above
LEAST_APART = 1e-15  # what is not the same to the bit, and yet differs by nothing that these numbers show
# Of the way that the weights went: more than two orders of the same batches differ by (docs/fixing.md).
WAY = 0.1


@dataclass(frozen=True)
class Parity:
    """``holds`` is None where it was not measured; ``loss`` is the short word of the JSON contract.

    ``own``: what two baselines differ by, in words; empty where they are the same to the bit, or there is but one.
    ``apart``: how far the losses, or their means, are from each other, as a share of the mean loss.
    """

    holds: bool | None
    loss: str
    says: str
    own: str = ""
    apart: float = 0.0


def by_weights(effect: Effect | None, baselines: Sequence[Weights], candidates: Sequence[Weights]) -> Parity:
    """As :func:`parity`, from the weights after the most steps of which all runs tell."""
    told = [{steps: (digest, moved) for steps, digest, moved in one} for one in (*baselines, *candidates)]
    common = set.intersection(*(set(one) for one in told)) if told else set()
    if not baselines or not candidates or not common:
        return Parity(None, "not measured", "no step's loss and no weights could be read in both")
    steps = max(common)
    ends = [one[steps] for one in told]
    first, mine = ends[: len(baselines)], ends[len(baselines) :]
    way, after = first[0][1], f"the weights after {counted(steps, 'step')}"
    if not all(math.isfinite(moved) for _, moved in ends):
        return Parity(None, "not measured", f"{after} are not finite")
    if way == 0.0 and all(moved == 0.0 for _, moved in ends):
        return Parity(None, "not measured", f"no step's loss could be read, and {after} are those after the first")
    digests, moved = {digest for digest, _ in first}, [m for _, m in first]
    own, apart = (d / (way or 1.0) for d in _distances(moved, [m for _, m in mine], lambda a, b: abs(a - b)))
    differs = f"{after} have moved by {own:.1%} more or less" if len(digests) > 1 else ""
    if all(other in digests for other, _ in mine):
        return Parity(True, "same", f"cannot be read; {after} are the same to the bit", differs)
    bounds = {Effect.EXACT: AS_FAR * own, Effect.EQUIVALENT: max(WAY, AS_FAR * own)}
    allowed = bounds.get(effect) if effect is not None else None
    holds = allowed is None or (apart <= allowed and (effect is not Effect.EXACT or len(digests) > 1))
    says = f"cannot be read; {after} have moved by {apart:.1%} more or less"
    says += f", allowed {allowed:.1%}" if allowed is not None else ""
    return Parity(holds, _within(apart) if holds else "differs", f"{says}, two baselines by {own:.1%}", differs)


def parity(effect: Effect | None, baselines: Sequence[Losses], candidates: Sequence[Losses]) -> Parity:
    """Whether the ``effect`` that was promised is what the candidates show. Without one, only told."""
    told = [_series(one) for one in (*baselines, *candidates)]
    # Steps that all of them tell: several batches in one execution tell only of the last.
    common = sorted(set.intersection(*(set(one) for one in told))) if told else []
    series = [[one[i] for i in common] for one in told]
    first, mine = series[: len(baselines)], series[len(baselines) :]
    n = len(common)
    if not n or common[-1] + 1 < FEWEST or not first or not mine:
        return Parity(None, "not measured", "no step's loss could be read in both")
    bad = [next((i for i, v in enumerate(s[:n]) if not math.isfinite(v)), n) for s in series]
    if len(set(bad)) > 1:  # of the baselines alone: the script's own
        own = len(set(bad[: len(baselines)])) > 1
        return Parity(None if own else False, "not measured" if own else "differs", "is not finite in all runs alike")
    n = bad[0]  # from there on nothing can be compared
    if not n or common[n - 1] + 1 < FEWEST:
        return Parity(None, "not measured", "is not finite from the start, in all runs")
    spread, apart = _distances(first, mine, lambda one, other: _distance(one, other, n))
    differs = f"the loss of a step by {plain(spread, 2)} of the mean" if spread else ""
    if apart == 0.0:
        return Parity(True, "same", f"the same to the bit over {counted(n, 'step')}", differs)
    if effect is Effect.EXACT:
        holds = apart <= AS_FAR * spread
        says = f"differs by {plain(apart, 2)} over {counted(n, 'step')}, allowed {plain(AS_FAR * spread, 2)}"
        says += f", two baselines by {plain(spread, 2)}"
        return Parity(holds, _within(apart) if holds else "differs", says, differs, apart)
    shift, bound = _shift(first, mine, n), _bound(first, mine, n)
    says = f"mean of {counted(n, 'step')} differs by {round(shift, 3) or 0.0:.1%}"  # no "-0.0%"
    if effect is Effect.EQUIVALENT:
        holds = abs(shift) <= bound
        says += f", allowed {bound:.1%}"
        return Parity(holds, _within(abs(shift)) if holds else "differs", says, differs, abs(shift))
    return Parity(True, _within(abs(shift)), says, differs, abs(shift))


def _within(apart: float) -> str:
    return f"within {max(apart, LEAST_APART):.0e}" if apart < 0.01 else f"within {plain(apart, 2)}"


def _series(losses: Losses) -> dict[int, float]:
    """The loss of each step that tells one: what is called so, else the first number that comes back without a name."""
    found = {}
    for index, step in enumerate(losses):
        name = next((k for k in step if k == "loss"), next((k for k in step if "loss" in k), None))
        if name is None and step and (len(step) == 1 or all(k.startswith("result[") for k in step)):
            name = next(iter(step))
        if name is not None:
            found[index] = float(step[name])
    return found


def _distances(first: Sequence[T], mine: Sequence[T], distance: Callable[[T, T], float]) -> tuple[float, float]:
    """Of the two baselines furthest apart, and of the candidate that is furthest from the baseline nearest to it."""
    own = max((distance(one, other) for one, other in itertools.combinations(first, 2)), default=0.0)
    return own, max(min(distance(one, other) for one in first) for other in mine)


def _distance(one: Sequence[float], other: Sequence[float], n: int) -> float:
    """The largest difference of a step, relative to the mean loss."""
    scale = statistics.fmean(abs(v) for v in one[:n]) or 1.0
    return max(abs(a - b) for a, b in zip(one[:n], other[:n], strict=True)) / scale


def _mean(several: Sequence[Sequence[float]], n: int) -> float:
    return statistics.fmean(statistics.fmean(s[:n]) for s in several)


def _shift(first: Sequence[Sequence[float]], mine: Sequence[Sequence[float]], n: int) -> float:
    scale = abs(_mean(first, n)) or 1.0
    return (_mean(mine, n) - _mean(first, n)) / scale


def _bound(first: Sequence[Sequence[float]], mine: Sequence[Sequence[float]], n: int) -> float:
    """The tolerance with the scatter of the differences of steps, which other batches have by themselves.

    It is no more than a baseline's own steps scatter by from one to the next, so that a candidate whose losses jump
    about allows itself nothing. Two baselines do not tell it: of one seed, they see the same batches.
    """
    scale = abs(_mean(first, n)) or 1.0
    differences = [a - b for a, b in zip(first[0][:n], mine[0][:n], strict=True)]
    following = [b - a for a, b in itertools.pairwise(first[0][:n])]
    scatter = min(statistics.stdev(differences), statistics.stdev(following)) if n > 2 else 0.0
    return TOLERANCE + SURE * scatter / math.sqrt(n) / scale
