"""Compares each loss of a candidate with the same loss of the baselines, identified by the function it comes from.

An iteration may compute several losses (a discriminator's, a generator's), and a cure may change which of them a step
reports: eagerly every gradient is reported, in functions every call. A mixture of losses differs from a single loss
although none of them has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slowtrain.model import Effect
from slowtrain.number_text import first_names
from slowtrain.verify.measurement import loss_parity as losses
from slowtrain.verify.measurement.loss_parity import MIN_COMPARED_STEPS, Parity
from slowtrain.verify.measurement.probe_process import Origin, Probe

MAX_NAMED_FUNCTIONS = 3
MAX_NAME_CHARACTERS = 40
LossPlaces = Mapping[str, int]  # function -> number of places in it that report losses


def matched_parity(effect: Effect | None, baselines: Sequence[Probe], candidates: Sequence[Probe]) -> Parity:
    """Whether the losses show the promised ``effect``; the weights, if steps report no loss.

    Not measured if neither can be compared, because a step covers a different part of an iteration than before.
    """
    rows = min((len(p.losses) for p in (*baselines, *candidates)), default=0)  # rows that all of them have
    told = [_loss_places(several, rows, telling=True) for several in (baselines, candidates)]
    pairs = _match_functions(*told)
    if pairs is not None:
        found = _joint_parity(effect, baselines, candidates, pairs)
        if found.holds is not None or all(any(p.losses) for p in (*baselines, *candidates)):
            return found
    counted = [_loss_places(several, rows, telling=False) for several in (baselines, candidates)]
    if _match_functions(*counted) is None:
        before, after = map(_list_functions, counted)
        return Parity(None, "not measured", f"a step is an iteration of {before} before and of {after} after")
    return losses.weight_parity(effect, [p.weights for p in baselines], [p.weights for p in candidates])


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
    if len(pairs) < 2:
        one, other = pairs[0] if pairs else ("", "")
        return losses.loss_parity(
            effect, [_losses_of(p, one) for p in baselines], [_losses_of(p, other) for p in candidates]
        )
    found = {
        one: losses.loss_parity(
            effect, [_losses_of(p, one) for p in baselines], [_losses_of(p, other) for p in candidates]
        )
        for one, other in pairs
    }
    # A broken promise comes first, then what is unknown, else all hold.
    holds = next(h for h in (False, None, True) if any(p.holds is h for p in found.values()))
    told = {name: p for name, p in found.items() if p.holds is holds}
    worst = max(told.values(), key=lambda p: p.apart)
    says = [f"of {_shorten_name(name)} {p.says}" for name, p in told.items()]
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
