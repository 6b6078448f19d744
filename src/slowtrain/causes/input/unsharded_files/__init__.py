"""Very many small files are opened one by one, or one reader serves all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
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

MIN_FILES_PER_BATCH = 8.0  # a batch
MAX_READING_CALL_US = (
    500.0  # a longer call does more than open and read a small file, which took about 20 µs in recordings
)
MAX_OTHER_SHARE = 0.5  # of a map's time: with more, its function mostly does something else than read
READER_NAMES = ("TFRecord", "TextLine", "FixedLengthRecord")


class ReadingKind(Enum):
    """How a pipeline reads its files."""

    FILE_PER_DATASET = "each file is opened as a data set of its own"
    FILE_PER_ELEMENT = "a map opens a file in each call"
    SINGLE_READER = "one reader of record files sets the pace"


class FileReading(Struct, frozen=True):
    """Reading of one kind in words, with the remedy. ``node``: its result can be cached; None if no such node reads."""

    kind: ReadingKind
    says: str
    numbers: Mapping[str, float]
    where: tuple[Place, ...]
    supply: Supply
    node: Node | None


class UnshardedFiles(Cause[FileReading]):
    """Every element is a small file of its own, or one reader goes through all files in turn."""

    title = "Many small files are read one by one"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    cured_by_packing = True
    symptoms = frozenset({Category.INPUT})
    words = ("read_file", "TFRecordWriter", "TFRecordDataset")

    def find(self, trace: Trace) -> FileReading | None:
        return _file_reading(trace)

    def evidence(self, trace: Trace, finding: FileReading) -> Evidence:
        return Evidence(finding.says, finding.numbers, finding.where)

    def remedies(self, trace: Trace, finding: FileReading) -> Sequence[Remedy]:
        return [finding.supply]


def _file_reading(trace: Trace) -> FileReading | None:
    nested, reading = find_nested_datasets(trace, of_files=True), _slow_reading(trace)
    if nested is None:
        return reading
    says = f"{nested.count:.0f} files are opened for each batch, each as a data set of its own"
    numbers = {"files_per_step": nested.count, "read_ms": nested.node.ms}
    supply = Supply(pipeline=nested.without_nesting(), nested=True, spread=(0.6, 1.1))
    node = reading.node if reading is not None else None
    return FileReading(ReadingKind.FILE_PER_DATASET, says, numbers, (nested.place,), supply, node)


def _slow_reading(trace: Trace) -> FileReading | None:
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
            return _single_reader(trace, pipe, node)
    return None


def _file_per_element(trace: Trace, pipe: Pipeline, node: Node) -> FileReading | None:
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
    rate, each_us = files / trace.step_ms * 1e3, format_number(1e3 * node.ms / files, 2)
    says = f"{files:.0f} files are opened for each batch, {rate:.0f} a second, {each_us} µs each"
    numbers = {"files_per_step": files, "read_ms": node.ms - other_ms, "other_ms": other_ms}
    # Records from one file come about as fast as elements from memory, and whole batches can be decoded at once.
    ms = min(other_ms + BATCH_CALL_MS + files * 2 * READY_ELEMENT_US / 1e3, node.ms)
    where = user_lines(node) or first_stage_places(trace)
    supply = Supply(pipeline=pipe.with_nodes(replace(node, ms=ms)))
    return FileReading(ReadingKind.FILE_PER_ELEMENT, says, numbers, where, supply, node)


def _single_reader(trace: Trace, pipe: Pipeline, node: Node) -> FileReading:
    says = (
        f"one reader reads {node.elements:.0f} records for each batch, {format_number(node.ms, 2)} ms, and nothing "
        "else is read meanwhile"
    )
    numbers = {"files_per_step": node.elements, "read_ms": node.ms, "other_ms": 0.0}
    where = user_lines(node) or first_stage_places(trace)
    supply = Supply(pipeline=pipe.with_nodes(replace(node, ms=node.ms / trace.cores)))
    return FileReading(ReadingKind.SINGLE_READER, says, numbers, where, supply, node)


def first_stage_places(trace: Trace) -> tuple[Place, ...]:
    """The line where the pipeline begins: readers run inside nodes that TensorFlow made."""
    return tuple(w.place for w in (trace.pipeline.written if trace.pipeline else ()) if w.place)[:1]
