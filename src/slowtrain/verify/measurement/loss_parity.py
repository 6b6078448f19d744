"""Whether a candidate still trains the same: compares its losses with the baseline's, step by step.

With fixed seeds two baselines have identical losses if the framework is deterministic. Otherwise their difference is
the measure. Both have the same seed, so a difference is the script's own. If no step reports a loss, the weights after
the same number of steps are compared.

The largest difference among three baselines underestimates the possible difference. In simulated runs (independent
steps, random walks, one direction) one or more of three candidates was further from the nearest baseline than that in
14 to 25 % of comparisons, and further than twice that in 0 to 10 %. So *exact* allows twice (tests/verify).

Each loss is compared with the same loss of the baselines, identified by the function it comes from. An iteration may
compute several losses (a discriminator's, a generator's), and a cure may change which of them a step reports: eagerly
every gradient is reported, in functions every call. A mixture of losses differs from a single loss although none of
them has changed.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from slowtrain.model import Effect
from slowtrain.number_text import first_names, format_count, format_number
from slowtrain.verify.measurement.probe_process import Origin, Probe

T = TypeVar("T")
Losses = Sequence[Mapping[str, float]]
# (steps taken, a digest, the distance from the weights after the first step)
Weights = Sequence[tuple[int, str, float]]

MIN_COMPARED_STEPS = 5  # steps that both must have
# Share of the mean loss by which another order of random draws or another rounding may shift the mean of the first
# steps, beyond three standard errors of the steps' scatter.
MEAN_LOSS_TOLERANCE = 0.02
MAX_STANDARD_ERRORS = 3.0
MAX_BASELINE_DISTANCES = (
    2.0  # distance to the nearest baseline, in distances between two baselines: see the module's docstring
)
MIN_DIFFERENCE = 1e-15  # a smaller difference is invisible in these numbers
# Share of the way that the weights moved: more than two orders of the same batches differ by (docs/fixing.md).
MAX_WEIGHT_WAY_SHARE = 0.1


@dataclass(frozen=True)
class Parity:
    """``holds`` is None if it was not measured; ``loss`` is the short word in the JSON document.

    ``own``: the difference between two baselines, in words; empty if they are identical, or if there is only one.
    ``apart``: the distance of the losses or of their means, as a share of the mean loss.
    """

    holds: bool | None
    loss: str
    says: str
    own: str = ""
    apart: float = 0.0


def weight_parity(effect: Effect | None, baselines: Sequence[Weights], candidates: Sequence[Weights]) -> Parity:
    """As :func:`loss_parity`, but compares the weights after the largest number of steps that all runs report."""
    runs = [{steps: (digest, moved) for steps, digest, moved in one} for one in (*baselines, *candidates)]
    common = set.intersection(*(set(one) for one in runs)) if runs else set()
    if not baselines or not candidates or not common:
        return Parity(None, "not measured", "neither losses nor weights could be read on both sides")
    steps = max(common)
    ends = [one[steps] for one in runs]
    first, mine = ends[: len(baselines)], ends[len(baselines) :]
    way, after = first[0][1], f"the weights after {format_count(steps, 'step')}"
    if not all(math.isfinite(moved) for _, moved in ends):
        return Parity(None, "not measured", f"{after} are not finite")
    if way == 0.0 and all(moved == 0.0 for _, moved in ends):
        return Parity(None, "not measured", f"no step's loss could be read, and {after} equal those after the first")
    digests, moved = {digest for digest, _ in first}, [m for _, m in first]
    own, distance = (d / (way or 1.0) for d in _largest_distances(moved, [m for _, m in mine], lambda a, b: abs(a - b)))
    differs = f"{after} differ by {own:.1%} of their movement" if len(digests) > 1 else ""
    if all(other in digests for other, _ in mine):
        return Parity(True, "same", f"cannot be read; {after} are bit-identical", differs)
    bounds = {
        Effect.EXACT: MAX_BASELINE_DISTANCES * own,
        Effect.EQUIVALENT: max(MAX_WEIGHT_WAY_SHARE, MAX_BASELINE_DISTANCES * own),
    }
    allowed = bounds.get(effect) if effect is not None else None
    holds = allowed is None or (distance <= allowed and (effect is not Effect.EXACT or len(digests) > 1))
    says = f"cannot be read; {after} differ by {distance:.1%} of their movement"
    says += f", allowed {allowed:.1%}" if allowed is not None else ""
    says += f"; two baselines differ by {own:.1%}"
    return Parity(holds, _within_phrase(distance) if holds else "differs", says, differs)


def loss_parity(effect: Effect | None, baselines: Sequence[Losses], candidates: Sequence[Losses]) -> Parity:
    """Whether the candidates keep the promised ``effect``. Without an effect the difference is only reported."""
    runs = [losses_by_step(one) for one in (*baselines, *candidates)]
    # Steps that all of them report: several batches in one execution report only the last one's loss.
    common = sorted(set.intersection(*(set(one) for one in runs))) if runs else []
    series = [[one[i] for i in common] for one in runs]
    first, mine = series[: len(baselines)], series[len(baselines) :]
    n = len(common)
    if not n or common[-1] + 1 < MIN_COMPARED_STEPS or not first or not mine:
        return Parity(None, "not measured", "no step's loss could be read on both sides")
    bad = [next((i for i, v in enumerate(s[:n]) if not math.isfinite(v)), n) for s in series]
    if len(set(bad)) > 1:  # only in baselines, so it is the script's own
        own = len(set(bad[: len(baselines)])) > 1
        return Parity(None if own else False, "not measured" if own else "differs", "is not finite in some runs only")
    n = bad[0]  # nothing can be compared from here on
    if not n or common[n - 1] + 1 < MIN_COMPARED_STEPS:
        return Parity(None, "not measured", "is not finite from the first step on, in all runs")
    spread, distance = _largest_distances(first, mine, lambda one, other: _largest_difference(one, other, n))
    differs = f"the loss of a step differs by {format_number(spread, 2)} of the mean" if spread else ""
    if distance == 0.0:
        return Parity(True, "same", f"is bit-identical over {format_count(n, 'step')}", differs)
    if effect is Effect.EXACT:
        holds = distance <= MAX_BASELINE_DISTANCES * spread
        says = (
            f"differs by {format_number(distance, 2)} over {format_count(n, 'step')}, allowed "
            f"{format_number(MAX_BASELINE_DISTANCES * spread, 2)}"
        )
        says += f"; two baselines differ by {format_number(spread, 2)}"
        return Parity(holds, _within_phrase(distance) if holds else "differs", says, differs, distance)
    shift, bound = _mean_shift(first, mine, n), _shift_bound(first, mine, n)
    says = f"differs by {round(shift, 3) or 0.0:.1%} in the mean of {format_count(n, 'step')}"  # avoids "-0.0%"
    if effect is Effect.EQUIVALENT:
        holds = abs(shift) <= bound
        says += f", allowed {bound:.1%}"
        return Parity(holds, _within_phrase(abs(shift)) if holds else "differs", says, differs, abs(shift))
    return Parity(True, _within_phrase(abs(shift)), says, differs, abs(shift))


def _within_phrase(difference: float) -> str:
    return (
        f"within {max(difference, MIN_DIFFERENCE):.0e}"
        if difference < 0.01
        else f"within {format_number(difference, 2)}"
    )


def losses_by_step(losses: Losses) -> dict[int, float]:
    """The loss of each step that reports one: the value named loss, else the first number returned without a name."""
    found = {}
    for index, step in enumerate(losses):
        name = next((k for k in step if k == "loss"), next((k for k in step if "loss" in k), None))
        if name is None and step and (len(step) == 1 or all(k.startswith("result[") for k in step)):
            name = next(iter(step))
        if name is not None:
            found[index] = float(step[name])
    return found


def _largest_distances(first: Sequence[T], mine: Sequence[T], distance: Callable[[T, T], float]) -> tuple[float, float]:
    """The largest distance between two baselines, and from a candidate to its nearest baseline."""
    own = max((distance(one, other) for one, other in itertools.combinations(first, 2)), default=0.0)
    return own, max(min(distance(one, other) for one in first) for other in mine)


def _largest_difference(one: Sequence[float], other: Sequence[float], n: int) -> float:
    """The largest difference of a step, relative to the mean loss."""
    scale = statistics.fmean(abs(v) for v in one[:n]) or 1.0
    return max(abs(a - b) for a, b in zip(one[:n], other[:n], strict=True)) / scale


def _mean_loss(several: Sequence[Sequence[float]], n: int) -> float:
    return statistics.fmean(statistics.fmean(s[:n]) for s in several)


def _mean_shift(first: Sequence[Sequence[float]], mine: Sequence[Sequence[float]], n: int) -> float:
    scale = abs(_mean_loss(first, n)) or 1.0
    return (_mean_loss(mine, n) - _mean_loss(first, n)) / scale


def _shift_bound(first: Sequence[Sequence[float]], mine: Sequence[Sequence[float]], n: int) -> float:
    """The tolerance, with the scatter of step differences, which other batches cause by themselves.

    It is at most the scatter of a baseline from step to step, so that a candidate with erratic losses does not raise
    its own bound. Two baselines do not show it: with one seed they see the same batches.
    """
    scale = abs(_mean_loss(first, n)) or 1.0
    differences = [a - b for a, b in zip(first[0][:n], mine[0][:n], strict=True)]
    following = [b - a for a, b in itertools.pairwise(first[0][:n])]
    scatter = min(statistics.stdev(differences), statistics.stdev(following)) if n > 2 else 0.0
    return MEAN_LOSS_TOLERANCE + MAX_STANDARD_ERRORS * scatter / math.sqrt(n) / scale


MAX_NAMED_FUNCTIONS = 3
MAX_NAME_CHARACTERS = 40
LossPlaces = Mapping[str, int]  # function -> number of places in it that report losses


def matched_parity(effect: Effect | None, baselines: Sequence[Probe], candidates: Sequence[Probe]) -> Parity:
    """Whether the losses show the promised ``effect``; the weights, if steps report no loss.

    Not measured if neither can be compared, because a step covers a different part of an iteration than before.
    """
    rows = min((len(p.losses) for p in (*baselines, *candidates)), default=0)  # rows that all of them have
    losses = [_loss_places(several, rows, telling=True) for several in (baselines, candidates)]
    pairs = _match_functions(*losses)
    if pairs is not None:
        found = _joint_parity(effect, baselines, candidates, pairs)
        if found.holds is not None or all(any(p.losses) for p in (*baselines, *candidates)):
            return found
    counted = [_loss_places(several, rows, telling=False) for several in (baselines, candidates)]
    if _match_functions(*counted) is None:
        before, after = map(_list_functions, counted)
        return Parity(None, "not measured", f"a step is an iteration of {before} before and of {after} after")
    return weight_parity(effect, [p.weights for p in baselines], [p.weights for p in candidates])


def _loss_places(several: Sequence[Probe], rows: int, *, telling: bool) -> LossPlaces:
    """Places that report losses, or all places that count as a step. Places with only a few steps are left out.

    If all places have few steps, all count. Keras' own steps have no name, and are one place.
    """
    found: Counter[tuple[str, int]] = Counter()
    for one in several:
        from_ = one.origins or tuple(Origin("") for _ in one.losses)
        steps = list(zip(from_, one.losses, strict=False))[:rows]
        here = Counter((o.name, o.at) for o, loss in steps if (loss if telling else o.counts))
        found |= here
    often = [name for (name, _), times in found.items() if times >= MIN_COMPARED_STEPS]
    return Counter(often or [name for name, _ in found])


def _match_functions(before: LossPlaces, after: LossPlaces) -> list[tuple[str, str]] | None:
    """The function pairs whose losses are compared; None if the functions do not correspond.

    If one function is left on each side, they are the same under different names: lines became a function.
    """
    same = [name for name, places in before.items() if after.get(name) == places]
    left, right = ([name for name in one if name not in same] for one in (before, after))
    pairs = [(name, name) for name in same]
    if len(left) == len(right) == 1 and before[left[0]] == after[right[0]] == 1:
        return [*pairs, (left[0], right[0])]
    return None if (left or right) and before and after else pairs


def _joint_parity(
    effect: Effect | None, baselines: Sequence[Probe], candidates: Sequence[Probe], pairs: Sequence[tuple[str, str]]
) -> Parity:
    found = {
        one: loss_parity(effect, [_losses_of(p, one) for p in baselines], [_losses_of(p, other) for p in candidates])
        for one, other in pairs or [("", "")]
    }
    if len(found) == 1:
        return next(iter(found.values()))
    # A broken promise comes first, then what is unknown, else all hold.
    holds = next(h for h in (False, None, True) if any(p.holds is h for p in found.values()))
    relevant = {name: p for name, p in found.items() if p.holds is holds}
    worst = max(relevant.values(), key=lambda p: p.apart)
    says = [f"of {_shorten_name(name)} {p.says}" for name, p in relevant.items()]
    own = next((f"in {_shorten_name(name)} {p.own}" for name, p in found.items() if p.own), "")
    return Parity(holds, worst.loss, "; ".join(first_names(says, MAX_NAMED_FUNCTIONS)), own, worst.apart)


def _losses_of(probe: Probe, name: str) -> Sequence[Mapping[str, float]]:
    """The losses of a function in the order of its steps; all losses if no function is known."""
    if not probe.origins or not name:
        return probe.losses
    return [loss for origin, loss in zip(probe.origins, probe.losses, strict=False) if origin.name == name]


def _list_functions(places: LossPlaces) -> str:
    words = [
        (f"{n} gradients in " if n > 1 else "") + (_shorten_name(name) if name else "Keras' own loop")
        for name, n in places.items()
    ]
    return " and ".join(first_names(words, MAX_NAMED_FUNCTIONS)) or "nothing"


def _shorten_name(name: str) -> str:
    if name == "<module>":
        return "the script itself"
    return name if len(name) <= MAX_NAME_CHARACTERS else f"{name[:MAX_NAME_CHARACTERS]}…"
