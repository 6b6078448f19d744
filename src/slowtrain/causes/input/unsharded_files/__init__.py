"""Very many small files are opened one by one, or one reader serves all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.causes.input.unsharded_files import smallfiles
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import input_edits, measured
from slowtrain.source.cures.input import file_readers
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import (
    BATCH_CALL_MS,
    READING_OPS,
    READY_ELEMENT_US,
    calls_per_batch,
    find_nested_datasets,
    profiled_op_ms,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

LEAST_FILES = 8.0  # a batch
MOST_US = 500.0  # a longer call does more than open and read a small file, which took about 20 µs in recordings
READERS = ("TFRecord", "TextLine", "FixedLengthRecord")


class UnshardedFiles(Cause[Evidence]):
    """Every element is a small file of its own, or one reader goes through all files in turn."""

    title = "Many small files are read one by one"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = ("read_file", smallfiles.WRITER)

    def find(self, trace: Trace) -> Evidence | None:
        many = find_nested_datasets(trace, of_files=True)
        if many is not None:
            says = f"{many.count:.0f} files are opened for each batch, each as a data set of its own"
            return Evidence(says, {"files_per_step": many.count, "read_ms": many.node.ms}, (many.place,))
        found = _reading(trace)
        if found is None or trace.pipeline is None:
            return None
        node, count, kept = found
        rate = count / trace.step_ms * 1e3
        if node.family == "Map":
            each_us = format_number(1e3 * node.ms / count, 2)
            says = f"{count:.0f} files are opened for each batch, {rate:.0f} a second, {each_us} µs each"
        else:
            ms = format_number(node.ms, 2)
            says = f"one reader reads {count:.0f} records for each batch, {ms} ms, and nothing is read beside it"
        return Evidence(
            says,
            {"files_per_step": count, "read_ms": node.ms - kept, "other_ms": kept},
            user_lines(node) or _source(trace),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        many = find_nested_datasets(trace, of_files=True)
        if many is not None:
            return [Supply(pipeline=many.without_nesting(), nested=True, spread=(0.6, 1.1))]
        found = _reading(trace)
        if found is None or trace.pipeline is None:
            return []
        node, count, kept = found
        if node.family == "Map":
            # Records from one file come about as fast as elements from memory, and batches can be decoded whole.
            ms = min(kept + BATCH_CALL_MS + count * 2 * READY_ELEMENT_US / 1e3, node.ms)
            return [Supply(pipeline=trace.pipeline.changed(replace(node, ms=ms)))]
        return [Supply(pipeline=trace.pipeline.changed(replace(node, ms=node.ms / trace.cores)))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = _reading(trace)
        if find_nested_datasets(trace, of_files=True) is not None:
            made = measured.first(trace, evidence.where, file_readers.open_files_in_parallel)
            if made:
                says = "open several files at once: give interleave num_parallel_calls=tf.data.AUTOTUNE"
                yield Prescription("edit", Effect.EXACT, says, edits=made)
        elif found is not None and found[0].family != "Map":
            yield from _readers(trace)
        yield Prescription(
            "advice", Effect.EXACT, "pack the files into a few TFRecord shards and read those with interleave"
        )
        kept = input_edits.cache_if_repeatable(trace, evidence.where, found[0]) if found is not None else ()
        says = "or keep what was read with .cache(), if it fits in memory"
        yield Prescription("edit", Effect.EXACT, says, edits=kept, later=bool(kept))


def _readers(trace: Trace) -> Iterable[Prescription]:
    """Several files read at once: in another order, which a shuffle behind it makes no difference."""
    effect = Effect.CHANGES_TRAINING

    def edit(source: Source, line: int) -> list[Edit]:
        nonlocal effect
        made, same = file_readers.read_files_in_parallel(source, line)
        shuffled = file_readers.is_shuffled_later(source, line)
        effect = Effect.EXACT if same else Effect.EQUIVALENT if shuffled else Effect.CHANGES_TRAINING
        return made

    made = measured.first(trace, _source(trace), edit)
    if made:
        yield Prescription("edit", effect, "read several files at once", edits=made)


def _source(trace: Trace) -> tuple[Place, ...]:
    """Where the pipeline begins: readers run inside nodes that TensorFlow made."""
    return tuple(w.place for w in (trace.pipeline.written if trace.pipeline else ()) if w.place)[:1]


def _reading(trace: Trace) -> tuple[Node, float, float] | None:
    """The node that reads, its files or records a batch, and the ms of it that are no reading."""
    pipe = waited_pipeline(trace)
    if pipe is None:
        return None
    slow = slowest_stage_nodes(pipe)
    for node in slow:
        if node.family == "Map" and node.written and "ReadFile" in node.written.ops and not node.written.python:
            count = calls_per_batch(pipe, node)
            inside, read = profiled_op_ms(trace, node) or 0.0, profiled_op_ms(trace, node, READING_OPS) or 0.0
            kept = max(inside - read, 0.0)
            heavy = any(op.startswith("Decode") and op != "DecodeRaw" for op in node.written.ops) and not inside
            if count >= LEAST_FILES and 1e3 * node.ms <= MOST_US * count and kept < 0.5 * node.ms and not heavy:
                return node, count, kept
        # What a record costs is known here, no price of calls is missing: it has to explain the wait.
        long = node.ms >= max(0.4 * trace.step_ms, 0.5 * max(n.ms for n in slow))
        if node.name.startswith(READERS) and long and not any(n.family == "Interleave" for n in pipe.nodes):
            return node, node.elements, 0.0
    return None
