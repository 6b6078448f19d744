"""Each loss of a candidate against the same one of the baselines, known by the function that it comes from.

A loop may take several losses in a turn (a discriminator's, a generator's), and a cure may change which of them a step
tells: eagerly every gradient is one, of functions every call. Mixed losses held against a single one differ, though
none of them has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slowtrain.figures import few
from slowtrain.model import Effect
from slowtrain.verify import parity as losses
from slowtrain.verify.parity import FEWEST, Parity
from slowtrain.verify.probes import Origin, Probe

MOST_NAMED = 3
LONGEST_NAME = 40
Places = Mapping[str, int]  # of each function in how many places it tells losses


def parity(effect: Effect | None, baselines: Sequence[Probe], candidates: Sequence[Probe]) -> Parity:
    """Whether the ``effect`` that was promised is what the losses show, or the weights where steps tell none.

    Not measured where neither of both can be compared: a step is another part of a turn than it was.
    """
    rows = min((len(p.losses) for p in (*baselines, *candidates)), default=0)  # as far as all of them have come
    told = [_places(several, rows, telling=True) for several in (baselines, candidates)]
    pairs = _pairs(*told)
    if pairs is not None:
        found = _together(effect, baselines, candidates, pairs)
        if found.holds is not None or all(any(p.losses) for p in (*baselines, *candidates)):
            return found
    counted = [_places(several, rows, telling=False) for several in (baselines, candidates)]
    if _pairs(*counted) is None:
        before, after = map(_named, counted)
        return Parity(None, "not measured", f"a step is one turn of {before} before, of {after} after")
    return losses.by_weights(effect, [p.weights for p in baselines], [p.weights for p in candidates])


def _places(several: Sequence[Probe], rows: int, *, telling: bool) -> Places:
    """Of losses that are told, or of all that counts as a step, told or not. A few steps by the way are none of them.

    Where there are but few of all, all count. Steps of Keras' own have no name, and are one.
    """
    found: Counter[tuple[str, int]] = Counter()
    for one in several:
        from_ = one.origins or tuple(Origin("") for _ in one.losses)
        steps = list(zip(from_, one.losses, strict=False))[:rows]
        here = Counter((o.name, o.at) for o, loss in steps if (loss if telling else o.counts))
        found |= here
    often = [name for (name, _), times in found.items() if times >= FEWEST]
    return Counter(often or [name for name, _ in found])


def _pairs(before: Places, after: Places) -> list[tuple[str, str]] | None:
    """Which function's losses are held against which; None where they are not the same ones.

    A single one that is left on both sides is the same under another name: lines that became a function.
    """
    same = [name for name, places in before.items() if after.get(name) == places]
    left, right = ([name for name in one if name not in same] for one in (before, after))
    pairs = [(name, name) for name in same]
    if len(left) == len(right) == 1 and before[left[0]] == after[right[0]] == 1:
        return [*pairs, (left[0], right[0])]
    return None if (left or right) and before and after else pairs


def _together(
    effect: Effect | None, baselines: Sequence[Probe], candidates: Sequence[Probe], pairs: Sequence[tuple[str, str]]
) -> Parity:
    if len(pairs) < 2:
        one, other = pairs[0] if pairs else ("", "")
        return losses.parity(effect, [_of(p, one) for p in baselines], [_of(p, other) for p in candidates])
    found = {
        one: losses.parity(effect, [_of(p, one) for p in baselines], [_of(p, other) for p in candidates])
        for one, other in pairs
    }
    # What breaks the promise, else what is not known, else all.
    holds = next(h for h in (False, None, True) if any(p.holds is h for p in found.values()))
    told = {name: p for name, p in found.items() if p.holds is holds}
    worst = max(told.values(), key=lambda p: p.apart)
    says = [f"of {_short(name)}, {p.says}" for name, p in told.items()]
    own = next((f"of {_short(name)}, {p.own}" for name, p in found.items() if p.own), "")
    return Parity(holds, worst.loss, "; ".join(few(says, MOST_NAMED)), own, worst.apart)


def _of(probe: Probe, name: str) -> Sequence[Mapping[str, float]]:
    """The losses of a function in the order of its steps; all of them where no function is known."""
    if not probe.origins or not name:
        return probe.losses
    return [loss for origin, loss in zip(probe.origins, probe.losses, strict=False) if origin.name == name]


def _named(places: Places) -> str:
    words = [
        (f"{n} gradients in " if n > 1 else "") + (_short(name) if name else "Keras' own loop")
        for name, n in places.items()
    ]
    return " and ".join(few(words, MOST_NAMED)) or "nothing"


def _short(name: str) -> str:
    if name == "<module>":
        return "the script itself"
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
