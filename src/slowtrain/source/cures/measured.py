"""From what a run named to the text: where a measured place takes an edit, and whether its results fit in memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from slowtrain.columns.input_pipeline import Node
from slowtrain.errors import InputError
from slowtrain.model import Edit, Place
from slowtrain.script.locations.recorded_sources import handmade_input, recorded_source
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input import arrays, datasets, feeding_by_hand
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import free_host_bytes
from slowtrain.values import dataclass

ON_DEVICE_BYTES = 2**30  # converted in all steps together: what takes no more is little for any accelerator
PACKED = 20.0  # times that data may shrink in a compressed file: more than gzip reaches on measured numbers
ON_DISK = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs overlay".split())  # its own disk; over a network it is slow
FITS = 0.5  # of the memory that was free throughout: the rest is for what else may grow


@dataclass(frozen=True)
class Room:
    """What is free where results are kept: in memory, else in files of the working folder."""

    free_bytes: float
    on_disk: bool

    @property
    def numbers(self) -> dict[str, float]:
        return {"free_bytes": self.free_bytes, "on_disk": float(self.on_disk)}

    @property
    def where(self) -> str:
        return " on the disk" if self.on_disk else ""


def room(trace: Trace, size: float) -> Room | None:
    """Where ``size`` bytes fit and leave as much to others; None where they do not, or nobody knows."""
    free, folder = free_host_bytes(trace), trace.fact("machine", "working_folder") or {}
    if free is None or size <= FITS * free:
        return Room(free, False) if free is not None else None
    left = float(folder.get("free_bytes") or 0) if folder.get("filesystem") in ON_DISK else 0.0
    return Room(left, True) if size <= FITS * left else None


def first(trace: Trace, places: Iterable[Place], edit: Callable[[Source, int], Sequence[Edit]]) -> tuple[Edit, ...]:
    """The edits that the first of ``places`` gives that gives any."""
    for place in dict.fromkeys(places):
        source = recorded_source(trace, place.file)
        found = edit(source, place.line) if source is not None else []
        if source is not None and found and parses(source, found):
            return tuple(found)
    return ()


def parses(source: Source, found: Iterable[Edit]) -> bool:
    """Whether the file is still Python with the edits, has its comments, and is another text than before."""
    found = tuple(found)
    try:
        text = edits.edited_text(source, found)
        ast.parse(text)
    except (SyntaxError, ValueError, InputError):
        return False
    return text != source.text and edits.keeps_comments(source, found, text)


def function_line(node: Node | None) -> int | None:
    """Where the function of a ``map`` begins."""
    function: dict[str, Any] = (node.written.detail.get("function") or {}) if node and node.written else {}
    return int(function["line"]) if function.get("line") else None


def turning(trace: Trace, node: Node) -> tuple[Place, ...]:
    """Where a loop makes ``node`` anew, if the node itself stands in a function that the loop calls."""
    place = node.written.place if node.written is not None else None
    text = recorded_source(trace, place.file) if place is not None else None
    line = text.loop_at_line(place.line)[1] if text is not None and place is not None else None
    return (Place(place.file, line),) if place is not None and line not in (None, place.line) else ()


def fits(trace: Trace, node: Node | None, times: float = 1.0) -> bool:
    """Whether all that ``node`` makes in an epoch, ``times`` over, surely fits in the memory that was free."""
    free, pipe = free_host_bytes(trace), trace.pipeline
    if node is None or pipe is None or free is None:
        return False
    length = (node.written.detail.get("cardinality") or -1) if node.written else -1
    each = node.written.element_bytes if node.written else None
    parts = (node.written.detail.get("element") or ()) if node.written else ()
    strings = any(part.get("dtype") == "string" for part in parts)
    if each is not None and int(length) > 0 and not strings:
        size = float(each) * int(length)
    else:
        # Batches of all epochs seen, over whole epochs: too many rather than too few.
        size = node.bytes_produced * max(pipe.batches, len(trace.steps)) / max(pipe.epochs - 1, 1)
    return size > 0 and times * size <= FITS * free


def axes(trace: Trace, node: Node | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How many axes each part of an element has, in front of a ``map`` and behind it; None where shapes are open."""
    pipe = trace.pipeline
    if node is None or pipe is None or node.written is None or len(node.written.inputs) != 1:
        return None
    before = pipe.written[node.written.inputs[0]] if node.written.inputs[0] < len(pipe.written) else None
    shapes = [[p.get("shape") for p in (w.detail.get("element") or ())] if w else [] for w in (before, node.written)]
    if not all(shapes) or any(shape is None or None in shape for shape in shapes[0]):
        return None  # elements of different shapes make no batch before they are made alike
    if any(shape is None for shape in shapes[1]):
        return None
    given, made = (tuple(len(shape or ()) for shape in each) for each in shapes)
    return given, made


def batched(trace: Trace, node: Node | None, places: Iterable[Place]) -> tuple[Edit, ...]:
    """``batch`` in front of the map ``node``, where its function does the same to batches."""
    found, line = axes(trace, node), function_line(node)
    if found is None:
        return ()
    given, made = found
    return first(trace, places, lambda s, at: datasets.batched_first(s, at, line, given, made)[0])


def kept(trace: Trace, places: Iterable[Place], node: Node | None) -> tuple[Edit, ...]:
    """``.cache()`` behind a generator or a ``map`` among ``places`` that makes the same in every epoch, if it fits."""
    pipe = trace.pipeline
    if pipe is None or pipe.epochs < 2 or any(w.family in ("Cache", "Take") for w in pipe.written):
        return ()
    if not fits(trace, node):
        return ()
    # Behind what follows, if the largest of all that is made on the way fits as well: then that is kept too.
    largest = max(pipe.nodes, key=lambda n: n.bytes_produced, default=None)
    furthest = fits(trace, largest) and fits(trace, pipe.output)

    def edit(source: Source, line: int) -> list[Edit]:
        for names in ((), ("from_generator",)):
            made, same = datasets.cached(source, line, None, *names, furthest=furthest)
            if made and same:
                return made
        return []

    return first(trace, places, edit)


def making(trace: Trace) -> Node | None:
    """The node of the pipeline that runs the script's Python."""
    pipe = trace.pipeline
    found = [n for n in (pipe.nodes if pipe else ()) if n.name == "Generator" or (n.written and n.written.python)]
    return max(found, key=lambda n: n.ms, default=None)


def every(trace: Trace, places: Iterable[Place], edit: Callable[[Source, int], list[Edit]]) -> tuple[Edit, ...]:
    """The edits of all ``places`` together."""
    found: list[Edit] = []
    for place in dict.fromkeys(places):
        found += first(trace, (place,), edit)
    together = tuple(dict.fromkeys(found))
    files = {e.file: recorded_source(trace, e.file) for e in together}
    sure = all(s is not None and parses(s, [e for e in together if e.file == f]) for f, s in files.items())
    return together if sure else first(trace, places, edit)


def by_hand_once(trace: Trace, places: Iterable[Place]) -> tuple[Edit, ...]:
    """What the loop's own lines do in every step, done before it: conversions, reads, values that never change."""
    places = tuple(places)
    # A tensor of all the data goes to the accelerator: there it has to fit beside the model.
    small = not trace.on_accelerator or float(np.nansum(trace.lane("feed").value)) <= ON_DEVICE_BYTES
    found = every(trace, places, feeding_by_hand.converted_once) if small else ()
    found = found or every(trace, places, feeding_by_hand.repeated_once)
    return found or (first(trace, places, arrays.read_whole) if _small_files(trace) else ())


def _small_files(trace: Trace) -> bool:
    """Whether all files that a whole run read, were they packed ever so tightly, fit in memory."""
    free, read = free_host_bytes(trace), trace.samples.get("read_call_bytes")
    ended = trace.fact("launch", "exit_code") == 0
    hand = handmade_input(trace)
    if free is None or read is None or not ended or hand is None or not hand.feeding.repeated:
        return False
    total = float(np.nanmax(read)) if np.isfinite(read).any() else 0.0
    return 0 < PACKED * total <= FITS * free


def touches(trace: Trace, found: Sequence[Edit], word: str) -> bool:
    """Whether a line that an edit begins on holds ``word``."""
    rows = {
        edit.file: source.text.split("\n")
        for edit in found
        if (source := recorded_source(trace, edit.file)) is not None
    }
    return any(
        word in rows[edit.file][edit.start[0] - 1].split()
        for edit in found
        if edit.file in rows and edit.start[0] <= len(rows[edit.file])
    )
