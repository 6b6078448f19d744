"""What grew while steps were taken and may explain the memory: containers, arrays, graphs, types of objects.

The recorder counted types of objects twice during the run, and recorded kept allocations for a few steps. They show
objects that no name in the script leads to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import Floats, distinct_values, median_value
from slowtrain.columns.spans import place_of
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.memory_growth import GrowthUnit, MemorySlope, format_bytes, steps_done_at

MIN_EXPLAINED_SHARE = 0.3  # of the growth; a container must explain this much to be named as its reason
MIN_KEPT_BYTES = 8 << 20  # bytes in containers; below them losses of hundreds of thousands of steps
MAX_FEW_ELEMENTS, MIN_FEW_KEPT_BYTES = 16, 32 << 20  # bytes in them. The models of one search are kept on purpose
MIN_FOLLOWED_SHARE = 0.5  # of what they keep; memory must have grown by at least this much
MIN_LENGTH_RATIO = 1.1  # times what an array was at first
MAX_QUIET_END_SHARE = 0.1  # of the run's steps; what did not get longer in the last ones has stopped growing
MAX_BYTES_PER_OBJECT = 256 << 10  # growing memory per growing object; with more, the objects do not explain the growth
MIN_KIND_RATIO = 0.25  # of the type that grew most; types that grew as much are parts of the same objects
MIN_MADE_SHARE = 0.3  # of the growth; what the named lines together must create and keep
MIN_LINE_SHARE = 0.1  # of the growth; what each named line must create and keep
MAX_NAMED_KINDS, MAX_NAMED_LINES = 3, 2
OBJECTS_KEY, MADE_KEY = "kept_objects_per_step", "made_per_step_bytes"


class GrowingContainer(Struct, frozen=True):
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

    def describe(self, unit: GrowthUnit) -> str:
        least = "at least " if self.at_least else ""
        each = f" of {least}{format_bytes(self.element_bytes)}" if self.element_bytes else ""
        if self.array:
            steps, name = (unit.steps, unit.name) if unit.place is not None else (1.0, "step")
            grows = f"grows by {format_bytes(steps * self.per_step)} per {name}"
            return f"`{self.path}` ({self.kind}) has {format_bytes(self.length)} and {grows}"
        what = self.element if self.element not in ("", "NoneType") else "element"
        return f"`{self.path}` holds {self.length:,} × {what}{each} and grows by {unit.pace(self.per_step)}"


def growing_containers(trace: Trace) -> list[GrowingContainer]:
    """Return the user's containers that grew until the end, those that keep the most bytes first."""
    spans = trace.lane("held")
    ends = _steps_at_last_look(trace)
    found: dict[tuple[int, int, str], GrowingContainer] = {}
    for number in distinct_values(spans.name):
        mine = spans.where(spans.name == number)
        detail = trace.names[int(number)].detail
        x = steps_done_at(trace, mine.start_ms)
        grown = int(mine.value[-1]) - int(mine.value[0])
        length = float(x[-1] - x[0])
        if detail.get("limit") or grown <= 0 or length <= 0 or (np.diff(mine.value) < 0).any():
            continue
        last = ends.get(str(detail.get("kind", "")), ends[""])
        # Something that grows once per epoch may have grown last an epoch ago. (A pause between two looks is no epoch.)
        grew = float(x[int(np.argmax(mine.value == mine.value[-1]))])
        if last - grew > max(MAX_QUIET_END_SHARE * last, 3 * float(median_value(np.diff(x)))):
            continue
        texts = {key: str(detail.get(key, "")) for key in ("file", "owner", "named", "kind", "element")}
        one = GrowingContainer(
            path=str(detail.get("path", trace.names[int(number)].text)), **texts,
            element_bytes=float(detail.get("element_bytes") or 0), length=int(mine.value[-1]), per_step=grown / length,
            at_least=bool(detail.get("at_least")), array=bool(detail.get("array")), grown=grown,
            sites=tuple(place for site in detail.get("sites", ()) if (place := place_of(site)) is not None),
        )  # fmt: skip
        found.setdefault((int(mine.value[-1]), grown, one.named), one)  # the same object under two names
    return sorted(found.values(), key=lambda h: (-h.bytes_per_step, -h.per_step))


def _steps_at_last_look(trace: Trace) -> dict[str, float]:
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
    walked, ended = steps_done_at(trace, np.array([min(walked_ms, end_ms), end_ms]))
    return {"": float(walked), "graph": float(ended)}


def growing_graphs(trace: Trace) -> list[GrowingContainer]:
    """Return graphs without functions that got ops until the end, by a tenth or more."""
    return [
        h for h in growing_containers(trace) if h.kind == "graph" and h.length > MIN_LENGTH_RATIO * (h.length - h.grown)
    ]


def growing_arrays(trace: Trace) -> list[GrowingContainer]:
    """Return arrays, tensors and tables of the user that got longer throughout, by a tenth or more; two at most."""
    return [h for h in growing_containers(trace) if h.array and h.length > MIN_LENGTH_RATIO * (h.length - h.grown)][:2]


def content_slope(found: MemorySlope, keeping: list[GrowingContainer]) -> MemorySlope | None:
    """Return the growth of the containers' own content, if the rest of the memory varies too much to be sure.

    None if memory as a whole did not follow, because then something else was freed. Memory may have followed if its
    interval contains the containers' growth.
    """
    mine = sum(h.bytes_per_step for h in keeping)
    least = MIN_FEW_KEPT_BYTES if all(h.length < MAX_FEW_ELEMENTS for h in keeping) else MIN_KEPT_BYTES
    followed = found.per_step >= MIN_FOLLOWED_SHARE * mine or 0 < found.per_step <= mine <= found.high
    if sum(h.length * h.element_bytes for h in keeping) < least or not followed:
        return None
    return MemorySlope(mine, mine, mine, mine * found.steps, found.steps)


def main_suspects(found: list[GrowingContainer], per_step: float) -> list[GrowingContainer]:
    """Return the containers that explain a good part of the growth; if none is known to, one of unknown size.

    Of the latter a graph comes first, then a container that keeps models.
    """
    known = [h for h in found if h.bytes_per_step >= MIN_EXPLAINED_SHARE * per_step]
    together = [h for h in found if h.bytes_per_step > 0.02 * per_step]
    if known or sum(h.bytes_per_step for h in together) >= MIN_EXPLAINED_SHARE * per_step:
        return (known or together)[:4]
    graphs = [h for h in together if h.kind == "graph"]
    unsure = [h for h in found if h.kind != "graph" and (h.at_least or not h.element_bytes)]
    return (graphs or sorted(unsure, key=lambda h: not h.at_least))[:1]


def graph_op_counts(trace: Trace) -> tuple[Floats, Floats]:
    """Return times and numbers of ops of the graph that code without functions builds; of several the largest."""
    spans = trace.lane("held")
    found = [
        spans.where(spans.name == n)
        for n in distinct_values(spans.name)
        if trace.names[n].detail.get("kind") == "graph"
    ]
    largest = max(found, key=lambda one: float(one.value[-1]), default=None)
    return (largest.start_ms, largest.value.astype(np.float64)) if largest is not None else (np.zeros(0), np.zeros(0))


class ObjectKind(Struct, frozen=True):
    """A type of objects, by module and name: ``per_step`` more in each step, ``count`` at the end."""

    name: str
    count: int
    per_step: float

    @property
    def short(self) -> str:
        return self.name.removeprefix("__main__.")


class AllocatingLine(Struct, frozen=True):
    """A line that allocates kept memory, in the allocators of Python and NumPy; a library's unless ``users``."""

    place: Place
    bytes_per_step: float
    users: bool


class KeptObjects(Struct, frozen=True):
    """Kept objects. ``steps``: in which allocations were recorded. ``collects``: Python's collector was on."""

    kinds: tuple[ObjectKind, ...]
    lines: tuple[AllocatingLine, ...]
    steps: int
    collects: bool

    @property
    def places(self) -> tuple[Place, ...]:
        """The script's own lines."""
        return tuple(line.place for line in self.lines if line.users)

    def numbers(self) -> dict[str, float]:
        found = {OBJECTS_KEY: self.kinds[0].per_step} if self.kinds else {}
        return found | ({MADE_KEY: sum(m.bytes_per_step for m in self.lines)} if self.lines else {})

    def describe(self, unit: GrowthUnit) -> str:
        kinds = [f"`{k.short}`: {k.count:,} objects, {unit.pace(k.per_step)} more" for k in self.kinds]
        lines = [f"{format_bytes(m.bytes_per_step)} a step allocated and kept at {m.place.short}" for m in self.lines]
        if lines:
            lines[-1] += f" (in {self.steps} steps, counting only the allocators of Python and NumPy)"
        off = [] if self.collects else ["Python's garbage collector is off, so that reference cycles are never freed"]
        return "; ".join([*kinds, *lines, *off])


def find_kept_objects(trace: Trace, per_step: float) -> KeptObjects | None:
    """Return what was kept of ``per_step`` bytes; None if it was not recorded, or explains too little."""
    events = list(trace.events_of("window"))
    looks = [e.data for e in events if e.name == "objects" and e.data.get("steps")]
    traced = [e.data for e in events if e.name == "allocations" and e.data.get("steps")]
    kinds = _kept_kinds(looks[-1], per_step) if looks else ()
    lines = _kept_lines(traced[-1], per_step) if traced else ()
    if not kinds and not lines:
        return None
    return KeptObjects(kinds, lines, int(traced[-1]["steps"]) if lines else 0, bool(looks[-1].get("collects", True)))


def _kept_kinds(look: Mapping[str, Any], per_step: float) -> tuple[ObjectKind, ...]:
    """Return the fastest growing types, those of modules first.

    Lists and dicts come last, because they are mostly parts of something.
    """
    rows = [row for row in look.get("types", ()) if row[2] > 0]
    found = [ObjectKind(str(name), int(count), more / look["steps"]) for name, count, more in rows]
    if sum(k.per_step for k in found) * MAX_BYTES_PER_OBJECT < per_step:
        return ()
    most = max(k.per_step for k in found)
    alike = [k for k in found if k.per_step >= MIN_KIND_RATIO * most]
    return tuple(sorted(alike, key=lambda k: ("." not in k.name, -k.per_step))[:MAX_NAMED_KINDS])


def _kept_lines(traced: Mapping[str, Any], per_step: float) -> tuple[AllocatingLine, ...]:
    rows = (
        (Place(str(file), int(line)), grown, bool(users)) for file, line, users, grown, _ in traced.get("lines", ())
    )
    found = [AllocatingLine(place, grown / traced["steps"], users) for place, grown, users in rows]
    parts = [m for m in found if m.bytes_per_step >= MIN_LINE_SHARE * per_step][:MAX_NAMED_LINES]
    return tuple(parts) if sum(m.bytes_per_step for m in parts) >= MIN_MADE_SHARE * per_step else ()
