"""How a pipeline reads its files: one data set or one call for each file, or one reader for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Edit, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
    BATCH_CALL_MS,
    READING_OPS,
    READY_ELEMENT_US,
    NestedDatasets,
    calls_per_batch,
    find_nested_datasets,
    profiled_op_ms,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

MIN_FILES_PER_BATCH = 8.0  # a batch
MAX_READING_CALL_US = (
    500.0  # a longer call does more than open and read a small file, which took about 20 µs in recordings
)
MAX_OTHER_SHARE = 0.5  # of a map's time: with more, its function mostly does something else than read
READER_NAMES = ("TFRecord", "TextLine", "FixedLengthRecord")


@dataclass(frozen=True)
class FilePerDataset:
    """Each file is opened as a data set of its own. ``cacheable_node``: another node that reads, if there is one."""

    nested: NestedDatasets
    cacheable_node: Node | None

    def where(self, trace: Trace) -> tuple[Place, ...]:
        return (self.nested.place,)

    def evidence(self, trace: Trace) -> Evidence:
        count = self.nested.count
        says = f"{count:.0f} files are opened for each batch, each as a data set of its own"
        return Evidence(says, {"files_per_step": count, "read_ms": self.nested.node.ms}, self.where(trace))

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Supply(pipeline=self.nested.without_nesting(), nested=True, spread=(0.6, 1.1))]

    def parallel_reading_cures(self, trace: Trace) -> Iterable[Prescription]:
        made = recorded_edits.first_applicable(trace, self.where(trace), dataset_edits.open_files_in_parallel)
        if made:
            says = "open several files at once: give interleave num_parallel_calls=tf.data.AUTOTUNE"
            yield Prescription("edit", Effect.EXACT, says, edits=made)


@dataclass(frozen=True)
class FilePerElement:
    """A map opens ``files`` files for each batch; ``other_ms`` of it is no reading."""

    pipeline: Pipeline
    node: Node
    files: float
    other_ms: float

    @property
    def cacheable_node(self) -> Node | None:
        return self.node

    def where(self, trace: Trace) -> tuple[Place, ...]:
        return user_lines(self.node) or _first_stage_places(trace)

    def evidence(self, trace: Trace) -> Evidence:
        files, ms = self.files, self.node.ms
        rate, each_us = files / trace.step_ms * 1e3, format_number(1e3 * ms / files, 2)
        return Evidence(
            f"{files:.0f} files are opened for each batch, {rate:.0f} a second, {each_us} µs each",
            {"files_per_step": files, "read_ms": ms - self.other_ms, "other_ms": self.other_ms},
            self.where(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # Records from one file come about as fast as elements from memory, and whole batches can be decoded at once.
        ms = min(self.other_ms + BATCH_CALL_MS + self.files * 2 * READY_ELEMENT_US / 1e3, self.node.ms)
        return [Supply(pipeline=self.pipeline.with_nodes(replace(self.node, ms=ms)))]

    def parallel_reading_cures(self, trace: Trace) -> Iterable[Prescription]:
        return ()


@dataclass(frozen=True)
class SingleReader:
    """One reader of record files sets the pace."""

    pipeline: Pipeline
    node: Node

    @property
    def cacheable_node(self) -> Node | None:
        return self.node

    def where(self, trace: Trace) -> tuple[Place, ...]:
        return user_lines(self.node) or _first_stage_places(trace)

    def evidence(self, trace: Trace) -> Evidence:
        records, ms = self.node.elements, self.node.ms
        return Evidence(
            f"one reader reads {records:.0f} records for each batch, {format_number(ms, 2)} ms, and nothing else is "
            "read meanwhile",
            {"files_per_step": records, "read_ms": ms, "other_ms": 0.0},
            self.where(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Supply(pipeline=self.pipeline.with_nodes(replace(self.node, ms=self.node.ms / trace.cores)))]

    def parallel_reading_cures(self, trace: Trace) -> Iterable[Prescription]:
        """Several files read at once: in another order, unless the edit keeps it or a shuffle follows."""
        effect = Effect.CHANGES_TRAINING

        def edit(source: Source, line: int) -> list[Edit]:
            nonlocal effect
            made, same = dataset_edits.read_files_in_parallel(source, line)
            shuffled = dataset_edits.is_shuffled_later(source, line)
            effect = Effect.EXACT if same else Effect.EQUIVALENT if shuffled else Effect.CHANGES_TRAINING
            return made

        made = recorded_edits.first_applicable(trace, _first_stage_places(trace), edit)
        if made:
            yield Prescription("edit", effect, "read several files at once", edits=made)


def find_file_reading(trace: Trace) -> FilePerDataset | FilePerElement | SingleReader | None:
    nested = find_nested_datasets(trace, of_files=True)
    reading = _find_slow_reading(trace)
    if nested is not None:
        return FilePerDataset(nested, reading.node if reading is not None else None)
    return reading


def _find_slow_reading(trace: Trace) -> FilePerElement | SingleReader | None:
    """The node that reads and sets the pace."""
    pipe = waited_pipeline(trace)
    if pipe is None:
        return None
    slow = slowest_stage_nodes(pipe)
    for node in slow:
        per_element = _file_per_element(trace, pipe, node)
        if per_element is not None:
            return per_element
        # The time of a record is complete, without a missing price of calls: it has to explain the wait.
        is_slow = node.ms >= max(0.4 * trace.step_ms, 0.5 * max(n.ms for n in slow))
        if node.name.startswith(READER_NAMES) and is_slow and not any(n.family == "Interleave" for n in pipe.nodes):
            return SingleReader(pipe, node)
    return None


def _file_per_element(trace: Trace, pipe: Pipeline, node: Node) -> FilePerElement | None:
    """A map that opens a small file in each call, and does little else."""
    function = node.written
    if node.family != "Map" or not function or "ReadFile" not in function.ops or function.python:
        return None
    files = calls_per_batch(pipe, node)
    inside, read = profiled_op_ms(trace, node) or 0.0, profiled_op_ms(trace, node, READING_OPS) or 0.0
    other_ms = max(inside - read, 0.0)
    decodes = any(op.startswith("Decode") and op != "DecodeRaw" for op in function.ops) and not inside
    if (
        files < MIN_FILES_PER_BATCH
        or 1e3 * node.ms > MAX_READING_CALL_US * files
        or other_ms >= MAX_OTHER_SHARE * node.ms
        or decodes
    ):
        return None
    return FilePerElement(pipe, node, files, other_ms)


def _first_stage_places(trace: Trace) -> tuple[Place, ...]:
    """The line where the pipeline begins: readers run inside nodes that TensorFlow made."""
    return tuple(w.place for w in (trace.pipeline.written if trace.pipeline else ()) if w.place)[:1]
