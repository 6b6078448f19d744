"""Objects of the user that grew while steps were taken: containers, arrays, graphs; and which explain the memory."""

from __future__ import annotations

import numpy as np

from slowtrain.model import Place
from slowtrain.trace import Floats, Trace, place_of
from slowtrain.trace.growth import Slope, Unit, size, steps_done
from slowtrain.trace.ordered import halfway, unique
from slowtrain.values import dataclass

HELD_SHARE = 0.3  # of the growth; a container must explain this much to be named as its reason
LEAST_KEPT = 8 << 20  # bytes in containers; below them losses of hundreds of thousands of steps
FEW, LEAST_KEPT_IN_FEW = 16, 32 << 20  # elements; bytes in them. The models of one search are kept on purpose
FOLLOWS = 0.5  # of what they keep; memory must have grown by at least this much
LONGER = 1.1  # times what an array was at first
ENDED = 0.1  # of the run's steps; what did not get longer in the last ones has stopped growing


@dataclass(frozen=True)
class Holder:
    """A container of the user that grew: by ``per_step`` elements of ``element_bytes`` (0: unknown) each.

    ``at_least``: each element keeps more than that; for example a model whose functions' graphs are not counted.
    ``array``: it is an array, counted in bytes, that was replaced by longer ones. ``grown``: total growth.
    """

    path: str
    file: str
    owner: str
    named: str
    kind: str
    element: str
    element_bytes: float
    length: int
    per_step: float
    at_least: bool = False
    array: bool = False
    grown: int = 0
    sites: tuple[Place, ...] = ()  # lines seen to add elements

    @property
    def bytes_per_step(self) -> float:
        return self.per_step * self.element_bytes

    def said(self, unit: Unit) -> str:
        least = "at least " if self.at_least else ""
        each = f" of {least}{size(self.element_bytes)}" if self.element_bytes else ""
        if self.array:
            told, name = (unit.steps, unit.name) if unit.place is not None else (1.0, "step")
            grows = f"grows by {size(told * self.per_step)} per {name}"
            return f"`{self.path}` ({self.kind}) has {size(self.length)} and {grows}"
        what = self.element if self.element not in ("", "NoneType") else "element"
        return f"`{self.path}` holds {self.length:,} × {what}{each} and grows by {unit.pace(self.per_step)}"


def holders(trace: Trace) -> list[Holder]:
    """Return the user's containers that grew until the end, those that keep the most bytes first."""
    spans = trace.lane("held")
    ends = _looked_at(trace)
    found: dict[tuple[int, int, str], Holder] = {}
    for number in unique(spans.name):
        mine = spans.where(spans.name == number)
        detail = trace.names[int(number)].detail
        x = steps_done(trace, mine.start_ms)
        grown = int(mine.value[-1]) - int(mine.value[0])
        length = float(x[-1] - x[0])
        if detail.get("limit") or grown <= 0 or length <= 0 or (np.diff(mine.value) < 0).any():
            continue
        last = ends.get(str(detail.get("kind", "")), ends[""])
        # Something that grows once per epoch may have grown last an epoch ago. (A pause between two looks is no epoch.)
        grew = float(x[int(np.argmax(mine.value == mine.value[-1]))])
        if last - grew > max(ENDED * last, 3 * float(halfway(np.diff(x)))):
            continue
        one = Holder(
            str(detail.get("path", trace.names[int(number)].text)),
            str(detail.get("file", "")),
            str(detail.get("owner", "")),
            str(detail.get("named", "")),
            str(detail.get("kind", "")),
            str(detail.get("element", "")),
            float(detail.get("element_bytes") or 0),
            int(mine.value[-1]),
            grown / length,
            bool(detail.get("at_least")),
            bool(detail.get("array")),
            grown,
            tuple(place for site in detail.get("sites", ()) if (place := place_of(site)) is not None),
        )
        found.setdefault((int(mine.value[-1]), grown, one.named), one)  # the same object under two names
    return sorted(found.values(), key=lambda h: (-h.bytes_per_step, -h.per_step))


def _looked_at(trace: Trace) -> dict[str, float]:
    """Return the steps done when containers, and graphs, were last inspected.

    Inspection of containers ends before the run if its share of the run's time is used up; graphs are counted to the
    end.
    """
    if not len(trace.steps):
        return {"": 0.0}
    walks = trace.facts.get("growth")
    walked_s = walks.get("due_s") if isinstance(walks, dict) else None
    end_ms = float(trace.steps.end_ms[-1])
    walked_ms = end_ms if not isinstance(walked_s, float) else float(trace.steps.start_ms[0]) + 1e3 * walked_s
    walked, ended = steps_done(trace, np.array([min(walked_ms, end_ms), end_ms]))
    return {"": float(walked), "graph": float(ended)}


def graphs(trace: Trace) -> list[Holder]:
    """Return graphs without functions that got ops until the end, by a tenth or more."""
    return [h for h in holders(trace) if h.kind == "graph" and h.length > LONGER * (h.length - h.grown)]


def arrays(trace: Trace) -> list[Holder]:
    """Return arrays, tensors and tables of the user that got longer throughout, by a tenth or more; two at most."""
    return [h for h in holders(trace) if h.array and h.length > LONGER * (h.length - h.grown)][:2]


def contents(found: Slope, keeping: list[Holder]) -> Slope | None:
    """Return the growth of the containers' own content, if the rest of the memory varies too much to be sure.

    None if memory as a whole did not follow, because then something else was freed. Memory may have followed if its
    interval contains the containers' growth.
    """
    mine = sum(h.bytes_per_step for h in keeping)
    least = LEAST_KEPT_IN_FEW if all(h.length < FEW for h in keeping) else LEAST_KEPT
    followed = found.per_step >= FOLLOWS * mine or 0 < found.per_step <= mine <= found.high
    if sum(h.length * h.element_bytes for h in keeping) < least or not followed:
        return None
    return Slope(mine, mine, mine, mine * found.steps, found.steps)


def reasons(found: list[Holder], per_step: float) -> list[Holder]:
    """Return the containers that explain a good part of the growth; if none is known to, one of unknown size.

    Of the latter a graph comes first, then a container that keeps models.
    """
    known = [h for h in found if h.bytes_per_step >= HELD_SHARE * per_step]
    together = [h for h in found if h.bytes_per_step > 0.02 * per_step]
    if known or sum(h.bytes_per_step for h in together) >= HELD_SHARE * per_step:
        return (known or together)[:4]
    graphs = [h for h in together if h.kind == "graph"]
    unsure = [h for h in found if h.kind != "graph" and (h.at_least or not h.element_bytes)]
    return (graphs or sorted(unsure, key=lambda h: not h.at_least))[:1]


def graph(trace: Trace) -> tuple[Floats, Floats]:
    """Return times and numbers of ops of the graph that code without functions builds; of several the largest."""
    spans = trace.lane("held")
    found = [spans.where(spans.name == n) for n in unique(spans.name) if trace.names[n].detail.get("kind") == "graph"]
    largest = max(found, key=lambda one: float(one.value[-1]), default=None)
    return (largest.start_ms, largest.value.astype(np.float64)) if largest is not None else (np.zeros(0), np.zeros(0))
