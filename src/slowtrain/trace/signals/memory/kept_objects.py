"""Objects that make memory grow without a name in the script that leads to them: by type, and who creates them.

The recorder counted types twice during the run, and recorded kept allocations for a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.memory.memory_growth import GrowthUnit, format_bytes

MAX_BYTES_PER_OBJECT = 256 << 10  # growing memory per growing object; with more, the objects do not explain the growth
MIN_KIND_RATIO = 0.25  # of the type that grew most; types that grew as much are parts of the same objects
MIN_MADE_SHARE = 0.3  # of the growth; what the named lines together must create and keep
MIN_LINE_SHARE = 0.1  # of the growth; what each named line must create and keep
MAX_NAMED_KINDS, MAX_NAMED_LINES = 3, 2
OBJECTS_KEY, MADE_KEY = "kept_objects_per_step", "made_per_step_bytes"
EVIDENCE_KEYS = frozenset({OBJECTS_KEY, MADE_KEY})


@dataclass(frozen=True)
class ObjectKind:
    """A type of objects, by module and name: ``per_step`` more in each step, ``count`` at the end."""

    name: str
    count: int
    per_step: float

    @property
    def short(self) -> str:
        return self.name.removeprefix("__main__.")


@dataclass(frozen=True)
class AllocatingLine:
    """A line that allocates kept memory, in the allocators of Python and NumPy; a library's unless ``users``."""

    place: Place
    bytes_per_step: float
    users: bool


@dataclass(frozen=True)
class KeptObjects:
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
        """Return the numbers for evidence."""
        found = {OBJECTS_KEY: self.kinds[0].per_step} if self.kinds else {}
        return found | ({MADE_KEY: sum(m.bytes_per_step for m in self.lines)} if self.lines else {})

    def said(self, unit: GrowthUnit) -> str:
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
    found = list(_allocating_lines(traced))
    parts = [m for m in found if m.bytes_per_step >= MIN_LINE_SHARE * per_step][:MAX_NAMED_LINES]
    return tuple(parts) if sum(m.bytes_per_step for m in parts) >= MIN_MADE_SHARE * per_step else ()


def _allocating_lines(traced: Mapping[str, Any]) -> Iterator[AllocatingLine]:
    for file, line, users, grown, _ in traced.get("lines", ()):
        yield AllocatingLine(Place(str(file), int(line)), grown / traced["steps"], bool(users))
