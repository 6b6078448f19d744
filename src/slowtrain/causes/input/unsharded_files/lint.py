"""Where the cause input/unsharded-files shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from msgspec import Struct

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

WRITER = "TFRecordWriter"
REMOTE_SCHEMES = ("gs://", "s3://")
MIN_WRITTEN_FILES = 1000  # at some 0.1 ms to open each, a tenth of a second in every epoch
MAX_RECORDS_PER_FILE = 8  # with as many or fewer, a batch of 64 opens at least eight files
MAX_FILE_BYTES = 65_536  # opening and closing takes about 20 µs; in that time a disk's cache gives as many bytes
NUMBER_BYTES_BY_DTYPE = {
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "float32": 4,
    "float64": 8,
    "int64": 8,
}


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps that open a file for each element, if shapes show that it is small; writers of files of single records."""
    for one in find_small_file_maps(source):
        says = "pack the files into a few TFRecord shards and read those with interleave"
        cure = Prescription("advice", Effect.EXACT, says)
        says = f"a file of {one.bytes:,} bytes is opened for each element: opening takes longer than reading"
        yield spots.operation_spot(one.call, says, cure)
    for call in find_serial_readers(source):
        says = "one thread reads and unpacks these files, one after the other"
        several = "read several files at a time: num_parallel_reads=tf.data.AUTOTUNE"
        cure = Prescription("edit", Effect.EQUIVALENT, several)
        yield spots.operation_spot(call, says, cure, "reading the records of a batch takes longer than a step")
    for few in find_small_file_writers(source):
        says = "write at least some hundred records into each file"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        count = "one record" if few.records == 1 else f"{few.records} records"
        says = f"this writes {few.files:,} files of {count} each: every epoch opens them all"
        yield spots.node_spot(few.call, says, cure)


def find_serial_readers(source: Source) -> Iterator[ast.Call]:
    """Each ``TFRecordDataset`` of several packed or remote files, without parallel reads, ``interleave`` and cache."""
    for call in call_index.index_of(source).calls_of("TFRecordDataset") if "cache" not in source.words else ():
        files = node_lookup.argument_value(call, "filenames", 0)
        packed = node_lookup.argument_value(call, "compression_type", 1)
        parallel = node_lookup.argument_value(call, "num_parallel_reads", 3)
        function = node_lookup.enclosing_node(source, call, ast.Lambda) or node_lookup.enclosing_function(source, call)
        one = isinstance(files, ast.Constant) or (function is not None and _is_parameter(function, files))
        far = packed is not None or any(scheme in source.text for scheme in REMOTE_SCHEMES)
        if files is not None and parallel is None and far and not one and queries.row_count_at(source, files) != 1:
            yield call


def _is_parameter(function: ast.AST, node: ast.expr | None) -> bool:
    """Whether it is a parameter of the function, which may get one file at a time."""
    return isinstance(node, ast.Name) and node.id in scope_names.parameter_names(function)


class SmallFileMap(Struct, frozen=True):
    call: ast.Call
    bytes: int


def find_small_file_maps(source: Source) -> Iterator[SmallFileMap]:
    """Each ``map`` that reads a file of raw numbers for one element."""
    for call in call_index.index_of(source).calls_of("map") if whole_pipelines.pipelines_of(source) else ():
        several = whole_pipelines.pipelines_with(source, call) if dataset_chains.is_operation(call) else []
        if not several or any("cache" in f.names or not whole_pipelines.is_element_wise(f, call) for f in several):
            continue
        if not _tensorflow_calls(source, call, "read_file"):
            continue
        flow = several[0]
        sizes = [
            _file_bytes(source, one, flow)
            for one in (call, *flow.calls_after(call))
            if node_lookup.called_name(one) == "map"
        ]
        known = [s for s in sizes if s is not None]
        if known and known[0] <= MAX_FILE_BYTES:
            yield SmallFileMap(call, known[0])


def _tensorflow_calls(source: Source, call: ast.Call, name: str) -> list[ast.Call]:
    function = whole_pipelines.mapped_function(source, call)
    every = (
        whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function)) if function is not None else []
    )
    return [
        c
        for c in every
        if node_lookup.called_name(c) == name and name_bindings.qualified_name(source, c.func).startswith("tensorflow.")
    ]


def _file_bytes(source: Source, call: ast.Call, flow: dataset_chains.DatasetChain) -> int | None:
    """Bytes of one file, as in ``tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, 24, 24))``; no axis of a batch."""
    batches = [
        node_lookup.argument_value(c, "batch_size", 0)
        for c in flow.calls_before(call)
        if node_lookup.called_name(c) == "batch"
    ]
    batch = queries.int_at(source, batches[0]) if batches else None
    decoded = _tensorflow_calls(source, call, "decode_raw")
    kind = node_lookup.argument_value(decoded[0], "out_type", 1) if len(decoded) == 1 else None
    each = NUMBER_BYTES_BY_DTYPE.get(kind.attr) if isinstance(kind, ast.Attribute) else None
    for shaped in (*_tensorflow_calls(source, call, "reshape"), *_tensorflow_calls(source, call, "ensure_shape")):
        shape = node_lookup.argument_value(shaped, "shape", 1)
        if each is None or not isinstance(shape, (ast.Tuple, ast.List)):
            continue
        sizes = [0 if isinstance(e, ast.UnaryOp) else queries.int_at(source, e) for e in shape.elts]  # -1: the rest
        if batch is not None and sizes[:1] == [batch]:
            sizes[0] = 1
        whole = [s for s in sizes if s is not None and s > 0]
        if None not in sizes and whole:
            return each * prod(whole)
    return None


class SmallFileWriter(Struct, frozen=True):
    """``call`` opens ``files`` files, one after the other, for ``records`` records each."""

    call: ast.Call
    files: int
    records: int


def find_small_file_writers(source: Source) -> Iterator[SmallFileWriter]:
    """Calls that write a large number of files of few records, if the script trains on them without a cache."""
    if WRITER not in source.text or not call_index.takes_training_steps(source):
        return
    reading = [f for f in whole_pipelines.pipelines_of(source) if _reads_records(f)]
    if not reading or any("cache" in f.names for f in reading):
        return
    for call in call_index.index_of(source).calls_of(WRITER):
        loops = scope_names.enclosing_loops(source, call)
        iterations = [queries.loop_turns(source, loop) for loop in loops]
        records = _records_per_file(source, call, loops) if loops and None not in iterations else None
        files = prod(t for t in iterations if t is not None)
        if records is not None and records <= MAX_RECORDS_PER_FILE and files >= MIN_WRITTEN_FILES:
            yield SmallFileWriter(call, files, records)


def _reads_records(flow: dataset_chains.DatasetChain) -> bool:
    """Whether a pipeline reads records, itself or in data sets inside it."""
    inner = {n.attr for c in flow.calls for a in c.args for n in syntax_tree.walk(a) if isinstance(n, ast.Attribute)}
    return "TFRecordDataset" in inner or "TFRecordDataset" in flow.names


def _records_per_file(source: Source, call: ast.Call, loops: list[ast.For | ast.While]) -> int | None:
    """Records in each file: the calls that write to it, times the iterations of the loops around them."""
    holder = node_lookup.parents_of(source).get(call)
    target = holder.optional_vars if isinstance(holder, ast.withitem) else None
    statement = node_lookup.enclosing_statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0]
    name = scope_names.dotted_name(target) if target is not None else ""
    writes = [
        c
        for c in call_index.index_of(source).calls_of("write")
        if name and scope_names.dotted_name(c.func) == f"{name}.write"
    ]
    total = 0
    for one in writes:
        around = scope_names.enclosing_loops(source, one)
        if loops[0] not in around:
            return None
        iteration_counts = [queries.loop_turns(source, loop) for loop in around[: around.index(loops[0])]]
        if None in iteration_counts:
            return None
        total += prod(t for t in iteration_counts if t is not None)
    return total or None
