"""Edits and advice for the input pipeline or the feeding loop that a recording describes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from slowtrain.columns.input_pipeline import Node
from slowtrain.machine.tables.fact_access import parse_version
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.input import (
    background_batches,
    batched_maps,
    dataset_edits,
    generator_edits,
    hoisted_conversions,
)
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import handmade_input, recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
    MAX_FREE_MEMORY_SHARE,
    MIN_SAMPLE_CALLS,
    StorageRoom,
    free_host_bytes,
    storage_room,
)

MAX_DEVICE_COPY_BYTES = 2**30  # for all conversions together. Any accelerator has that much to spare.
MAX_COMPRESSION_RATIO = 20.0  # gzip reaches less on measured numbers


def fits_in_memory(trace: Trace, node: Node | None, times: float = 1.0) -> bool:
    """Whether ``times`` copies of the output of ``node`` over one epoch fit in the memory that was free."""
    room = _output_room(trace, node, times)
    return room is not None and not room.on_disk


def _output_room(trace: Trace, node: Node | None, times: float = 1.0) -> StorageRoom | None:
    """Where ``times`` copies of the output of ``node`` over one epoch fit; None if nowhere, or if that is unknown."""
    pipe = trace.pipeline
    if node is None or pipe is None:
        return None
    length = (node.written.detail.get("cardinality") or -1) if node.written else -1
    each = node.written.element_bytes if node.written else None
    parts = (node.written.detail.get("element") or ()) if node.written else ()
    strings = any(part.get("dtype") == "string" for part in parts)
    if each is not None and int(length) > 0 and not strings:
        size = float(each) * int(length)
    else:
        # The last epoch may be incomplete, so this estimate is too large rather than too small.
        size = node.bytes_produced * max(pipe.batches, len(trace.steps)) / max(pipe.epochs - 1, 1)
    return storage_room(trace, times * size) if size > 0 else None


def element_ranks(trace: Trace, node: Node | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ranks of the parts of an element before and after a ``map``; None if a shape is unknown."""
    pipe = trace.pipeline
    if node is None or pipe is None or node.written is None or len(node.written.inputs) != 1:
        return None
    before = pipe.written[node.written.inputs[0]] if node.written.inputs[0] < len(pipe.written) else None
    shapes = [[p.get("shape") for p in (w.detail.get("element") or ())] if w else [] for w in (before, node.written)]
    if not all(shapes) or any(shape is None or None in shape for shape in shapes[0]):
        return None  # elements of different shapes cannot be batched before the map
    if any(shape is None for shape in shapes[1]):
        return None
    input_ranks, output_ranks = (tuple(len(shape or ()) for shape in each) for each in shapes)
    return input_ranks, output_ranks


def batch_before_map(trace: Trace, node: Node | None, places: Iterable[Place]) -> tuple[Edit, ...]:
    """Move ``batch`` before the map ``node`` if the function gives the same results for batches."""
    found, line = element_ranks(trace, node), node.function_line if node else None
    places = places_drawing_per_image(trace, places)
    if found is None:
        return ()
    input_ranks, output_ranks = found
    return recorded_edits.first_applicable(
        trace, places, lambda s, at: batched_maps.batch_before_map(s, at, line, input_ranks, output_ranks)[0]
    )


def places_drawing_per_image(trace: Trace, places: Iterable[Place]) -> tuple[Place, ...]:
    """The places without those of files in which a layer draws once for a whole batch in this version of Keras."""
    version = parse_version(trace.facts.get("version.keras"))
    if version is None or version >= CONTRAST_KERAS_VERSION:
        return tuple(places)
    sources = {place: recorded_source(trace, place.file) for place in places}
    return tuple(place for place, s in sources.items() if s is not None and "RandomContrast" not in s.words)


def repeatable_cache_cures(trace: Trace, places: Iterable[Place], node: Node | None, what: str) -> list[Prescription]:
    """The edit that keeps the output of a generator or ``map`` at ``places``, if it repeats and fits somewhere.

    In memory, or else in files that the script removes when it ends. ``what``: words for the output.
    """
    pipe, room = trace.pipeline, _output_room(trace, node)
    if pipe is None or room is None or pipe.epochs < 2 or any(w.family in ("Cache", "Take") for w in pipe.written):
        return []
    # If the largest output of all nodes fits too, the cache comes after the operations that follow.
    largest = max(pipe.nodes, key=lambda n: n.bytes_produced, default=None)
    furthest = fits_in_memory(trace, largest) and fits_in_memory(trace, pipe.output)

    def edit(source: Source, line: int) -> list[Edit]:
        for names in ((), ("from_generator",)):
            if room.on_disk:
                cache_edits, same = dataset_edits.add_disk_cache(source, line, None, *names)
            else:
                cache_edits, same = dataset_edits.add_cache(source, line, None, *names, furthest=furthest)
            if cache_edits and same:
                return cache_edits
        return []

    changed = recorded_edits.first_applicable(trace, places, edit)
    how = ".cache(path): it fits on the disk, and not in memory" if room.on_disk else ".cache(): it fits in memory"
    return [Prescription("edit", Effect.EXACT, f"keep {what} with {how}", edits=changed, later=True)] if changed else []


def python_node(trace: Trace) -> Node | None:
    """Return the slowest node of the pipeline that runs Python of the script."""
    pipe = trace.pipeline
    found = [n for n in (pipe.nodes if pipe else ()) if n.name == "Generator" or (n.written and n.written.python)]
    return max(found, key=lambda n: n.ms, default=None)


def hoist_loop_work(trace: Trace, places: Iterable[Place]) -> tuple[Edit, ...]:
    """Move work that the loop repeats in each step before the loop: conversions, file reads, constant values."""
    places = tuple(places)
    # The tensor of all data has to fit into the memory of the accelerator, next to the model.
    small = not trace.on_accelerator or float(np.nansum(trace.lane("feed").value)) <= MAX_DEVICE_COPY_BYTES
    found = recorded_edits.all_applicable(trace, places, hoisted_conversions.convert_before_loop) if small else ()
    found = found or recorded_edits.all_applicable(trace, places, hoisted_conversions.hoist_repeated_work)
    return found or (
        recorded_edits.first_applicable(trace, places, hoisted_conversions.read_dataset_into_memory)
        if _read_files_fit_in_memory(trace)
        else ()
    )


def _read_files_fit_in_memory(trace: Trace) -> bool:
    """Whether the data of all files that a complete run read fits in memory, even if the files are compressed."""
    free, read = free_host_bytes(trace), trace.samples.get("read_call_bytes")
    ended = trace.fact("launch", "exit_code") == 0
    hand = handmade_input(trace)
    if free is None or read is None or not ended or hand is None or not hand.feeding.repeated:
        return False
    total = float(np.nanmax(read)) if np.isfinite(read).any() else 0.0
    return 0 < MAX_COMPRESSION_RATIO * total <= MAX_FREE_MEMORY_SHARE * free


# Advice by the kind of work.
ADVICE_BY_KIND = {
    "loop": (Effect.EQUIVALENT, "replace the loop over elements{where} by array code or TensorFlow ops"),
    "once": (Effect.EXACT, "do this work{where} once, before the loop, or keep it with .cache()"),
    "drawn": (Effect.CHANGES_TRAINING, "draw the data once, before the loop"),
    "beside": (Effect.EXACT, "make the next batch in a background thread, or with from_generator and prefetch"),
    "work": (Effect.EQUIVALENT, "write {what} in TensorFlow ops in a parallel map, or use worker processes"),
    "waits": (Effect.EXACT, "let several calls wait at once (PyDataset(workers=8), a map with num_parallel_calls=8)"),
}
JAX_ADVICE_BY_KIND = {  # tf.data may not be installed
    "loop": "replace the loop over elements{where} by array code",
    "once": "do this work{where} once, before the loop",
    "beside": "make the next batch in a background thread",
    "work": "write {what} for whole batches in array code, or use PyDataset(workers=8, use_multiprocessing=True)",
    "waits": "let several calls wait at once: PyDataset(workers=8)",
}

WORKERS_TEXT = (
    f"let {background_batches.WORKER_COUNT} worker threads make the batches of the PyDataset, beside one another"
)
CONTRAST_KERAS_VERSION = (3, 6)  # the first one whose RandomContrast draws for each image of a batch
Fix = Callable[[Source, int], Sequence[Edit]]


def python_input_fixes(calls: float, kind: str) -> Iterator[tuple[Effect, str, Fix]]:
    """Yield the effect, text and edit of each fix for Python of a kind (:data:`WORDS`).

    ``calls``: calls per batch. A Python loop holds the interpreter lock, so that threads do not help.
    """
    exact = Effect.EXACT
    if calls >= MIN_SAMPLE_CALLS and kind != "samples":
        yield exact, "hand whole batches of the generator's samples to TensorFlow", generator_edits.yield_batches
    if kind == "loop":
        return
    yield exact, WORKERS_TEXT, background_batches.add_workers
    yield (
        Effect.EQUIVALENT,
        f"{WORKERS_TEXT}; its random draws fall to other batches",
        background_batches.add_workers_to_drawing,
    )


def advice_for_kind(kind: str, name: str, *, on_jax: bool = False) -> tuple[Effect, str]:
    """Return the effect and the advice for a kind, with the name of the function if known."""
    effect, says = ADVICE_BY_KIND[kind]
    says = JAX_ADVICE_BY_KIND.get(kind, says) if on_jax else says
    return effect, says.format(where=f" in {name}" if name else "", what=name or "it")


def hottest_function(trace: Trace, where: Sequence[Place]) -> str:
    """Return the label of the function at the first of ``where``."""
    return function_label(recorded_source(trace, where[0].file), where[0].line) if where else ""


def function_label(source: Source | None, line: int) -> str:
    """Return ``Jitter.apply (line 32)`` for the function that contains a line."""
    function = source.function_at(line) if source is not None else None
    if source is None or not isinstance(function, FUNCTION_NODES):
        return ""
    owner = node_lookup.parents_of(source).get(function)
    first = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
    return f"`{first}{function.name}` (line {function.lineno})"
