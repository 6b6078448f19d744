"""Facts about how the steps are fed, which several causes of the input family share."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import median_value
from slowtrain.columns.device import Kernels, Line, Producer
from slowtrain.columns.input_pipeline import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Node,
    Pipeline,
    WrittenDataset,
    repeats_input,
)
from slowtrain.model import Category, Place
from slowtrain.profile import framework_names
from slowtrain.trace import Trace

MIN_WAIT_SHARE = 0.05  # of a step; smaller savings are not reported
MIN_USUAL_WAIT_SHARE = 0.1  # of a usual step; with less only a few steps wait
MIN_SLOWEST_STAGE_SHARE = 0.6  # of the slowest stage's time; a stage with this share also limits the speed
# Handing on an element that is ready in memory (0.3 to 0.7 µs for TensorSlice and Batch, TensorFlow 2.21).
READY_ELEMENT_US = 0.5
COPY_BYTES_PER_MS = 4e6  # copying a batch in memory at 4 GB/s: an assumed lower bound for one core
BATCH_CALL_MS = 0.05  # one call of a function on a whole batch; upper bound of a call for one element
MAX_FREE_MEMORY_SHARE = 0.5  # of the memory that was free throughout the run: other data may grow into the rest
LOCAL_FILE_SYSTEMS = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs overlay".split())  # network file systems are slow
MIN_SAMPLE_CALLS = 8.0  # of Python for a batch: with as many, a generator yields single samples
DATASET_OP = re.compile(r"Dataset(?:V\d+)?$")
NESTING_FAMILIES = frozenset({"Interleave", "FlatMap"})
FILE_DATASET_OPS = ("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset")
MIN_FILE_DATASET_SHARE = 0.25  # of the most frequent data set: a file's data set has one or two around it
MIN_NESTED_PER_BATCH = 8.0  # data sets per batch; an interleave over shards makes one for thousands of elements
READING_OPS = frozenset({"ReadFile", "ReaderReadV2", "WholeFileReaderV2"})
# Ops that accept only single elements: a map with one of them cannot be moved after the batch.
SINGLE_ELEMENT_OPS = tuple(
    "DecodeJpeg DecodePng DecodeImage DecodeBmp DecodeGif DecodeWav DecodeAndCrop ReadFile SampleDistorted".split()
)
UNCALLED_OPS = frozenset({"Const", "Placeholder", "Identity", "NoOp"})  # run no kernel, or take almost no time
# Per op of a function, including its start; ops that take longer on average appear in the profile.
MAX_UNSEEN_OP_US = 20.0


def input_wait_share(trace: Trace) -> float:
    """Return the part of a step that is spent waiting for its batch."""
    return trace.share(Category.INPUT)


def usual_step_waits(trace: Trace) -> bool:
    """Return whether the usual step waits for its batch, rather than a few steps for a long time."""
    wait, steady = trace.categories.get(Category.INPUT), trace.steps.steady
    if wait is None or not steady.any():
        return False
    return float(median_value(wait[steady])) > MIN_USUAL_WAIT_SHARE * float(median_value(trace.steps.ms[steady]))


def busy_cores(trace: Trace) -> float | None:
    """Return the processors that the process kept busy during the steps; None if it was not measured.

    Time in which it waits for other training processes does not count, because its cores are then idle.
    """
    cpu = trace.facts.get("cpu_ms_per_step")
    own_ms = trace.step_ms - trace.mean(Category.COLLECTIVE_WAIT) if trace.step_ms else 0.0
    return float(cpu) / own_ms if cpu and own_ms > 0 else None


def idle_cores(trace: Trace) -> float:
    """Return the processors that were idle during the steps; all but one if it was not measured."""
    busy = busy_cores(trace)
    return max(trace.cores - (busy if busy is not None else 1.0), 0.0)


def waited_pipeline(trace: Trace) -> Pipeline | None:
    """Return the pipeline with counters that the steps wait for, or None."""
    pipe = trace.pipeline
    return pipe if pipe is not None and pipe.nodes and input_wait_share(trace) >= MIN_WAIT_SHARE else None


def is_user_node(node: Node) -> bool:
    """Return whether the user wrote the node; Keras and TensorFlow add their own. Assumed for a profile."""
    return node.written is not None and (node.written.place is not None or "profiled" in node.written.detail)


def slowest_stage_nodes(pipe: Pipeline) -> list[Node]:
    """Return the nodes of the stages that limit the speed, costliest first."""
    most = pipe.made_ms
    stages = [s for s in pipe.stages() if s.latency_ms >= MIN_SLOWEST_STAGE_SHARE * most and s.ms > 0]
    return sorted((n for s in stages for n in s.nodes), key=lambda n: -n.ms)


def slow_user_maps(pipe: Pipeline) -> list[Node]:
    """Return the user's ``map`` nodes that limit the speed and take most of their stage."""
    found = slowest_stage_nodes(pipe)
    return [n for n in found if n.family == "Map" and is_user_node(n) and n.ms >= 0.5 * max(m.ms for m in found)]


def calls_per_batch(pipe: Pipeline, node: Node) -> float:
    """Return how often a node's function is called per batch."""
    if node.name.startswith("MapAndBatch"):
        return node.elements * pipe.batch_size
    return node.elements


def as_batched_map(node: Node, ms: float) -> Node:
    """Return a map that is called once per batch and takes ``ms`` for it.

    TensorFlow fuses a map and the following batch into one node. A map of whole batches has no batch after it.
    """
    name = "ParallelMapV2" if node.name.startswith("MapAndBatch") else node.name
    return replace(node, name=name, ms=min(ms, node.ms), elements=1.0)


def user_lines(node: Node) -> tuple[Place, ...]:
    """Return the user's lines of a node and of its function."""
    function = (node.written.detail.get("function") or {}) if node.written else {}
    found = [*node.places]
    if function.get("file") and function.get("user"):
        found.append(Place(str(function["file"]), int(function["line"])))
    return tuple(dict.fromkeys(found))


def written_op_type(op: str) -> str:
    """Return an op's type as the script's function has it: ``Conv2D`` for ``_FusedConv2D``."""
    return re.sub(framework_names.FUSED_OP, "", op, count=1) if op.startswith("_") else op


def profiled_op_ms(trace: Trace, node: Node, only: frozenset[str] | None = None) -> float | None:
    """Return the time per batch in ops of a node's function that are long enough to be profiled.

    None without a window. Also None if no element was made in the window and calls take longer than unrecorded short
    ops could explain. The window contains more or fewer elements than its steps request, so that the time per call is
    used.
    """
    deep, pipe = trace.kernels, trace.pipeline
    if deep is None or pipe is None or node.written is None or (not deep.by_input and not deep.steps):
        return None
    mine, seen = _profiled_ops(deep, node.written)
    if seen <= 0:
        if deep.input_calls == 0:  # a buffer was filled before
            return None
        unseen = 1e3 * node.ms > MAX_UNSEEN_OP_US * sum(node.written.ops.values()) * calls_per_batch(pipe, node)
        return None if unseen else 0.0
    each = sum(ms for t, (ms, _) in mine.items() if only is None or t in only) / seen
    return each * calls_per_batch(pipe, node)


def _profiled_ops(deep: Kernels, function: WrittenDataset) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the input's ops that a function has, with ms and count per step of a window, and its calls per step."""
    mine = {t: row for t, row in deep.by_input.items() if written_op_type(t) in function.ops}
    return mine, max((count / max(function.ops[written_op_type(t)], 1) for t, (_, count) in mine.items()), default=0.0)


def ops_per_call(trace: Trace, node: Node) -> float:
    """Return the number of ops that one call of a node's function starts.

    That is the number written, without ops that TensorFlow folded into constants: the profiler recorded fewer of
    their type than are written. Types too short to be recorded count as written.
    """
    if node.written is None:
        return 0.0
    written = {op: float(n) for op, n in node.written.ops.items() if op not in UNCALLED_OPS}
    mine, seen = _profiled_ops(trace.kernels, node.written) if trace.kernels is not None else ({}, 0.0)
    ran: dict[str, float] = {}
    for op, (_, count) in mine.items() if seen > 0 else ():
        ran[written_op_type(op)] = ran.get(written_op_type(op), 0.0) + count / seen
    return sum(min(n, ran.get(op, n)) for op, n in written.items())


def can_take_batches(function: WrittenDataset) -> bool:
    """Return whether a function can work on whole batches: none of its ops accepts only single elements."""
    return not function.python and not any(op.startswith(SINGLE_ELEMENT_OPS) for op in function.ops)


class NestedDatasets(Struct, frozen=True):
    """An ``interleave`` or ``flat_map`` whose function makes ``count`` data sets per batch.

    Creating and ending a data set takes longer than handing on an element, and no node's own time includes it.
    """

    pipe: Pipeline
    node: Node
    place: Place
    count: float

    def without_nesting(self) -> Pipeline:
        """Return the pipeline if its elements came directly, without data sets of their own."""
        inside = [self.node, *self.pipe.upstream_nodes(self.node)]
        return self.pipe.with_nodes(
            *(replace(n, ms=min(n.ms, BATCH_CALL_MS + n.elements * READY_ELEMENT_US / 1e3)) for n in inside)
        )

    def in_batches(self) -> Pipeline:
        """Return the pipeline if whole batches came: later maps are called once per batch if they can work on one."""
        behind = [n for n in self.pipe.nodes if self.node in self.pipe.upstream_nodes(n) and n.family == "Map"]
        able = [n for n in behind if n.written is not None and can_take_batches(n.written)]
        return self.without_nesting().with_nodes(
            *(as_batched_map(n, BATCH_CALL_MS + calls_per_batch(self.pipe, n) * READY_ELEMENT_US / 1e3) for n in able)
        )


def find_nested_datasets(trace: Trace, *, of_files: bool) -> NestedDatasets | None:
    """Return nested data sets that limit the speed, if a profiler window recorded them; of files or of memory data."""
    deep, pipe = trace.kernels, waited_pipeline(trace)
    if deep is None or pipe is None:
        return None
    counts = {op: count for op, (_, count) in deep.by_input.items() if DATASET_OP.search(op)}
    count = max(counts.values(), default=0.0)
    written = [w.place for w in pipe.written if w.family in NESTING_FAMILIES and w.place is not None]
    # TensorFlow itself iterates a data set of files.
    written = written or [w.place for w in pipe.written if w.op.startswith(FILE_DATASET_OPS) and w.place is not None]
    slow = [n for n in slowest_stage_nodes(pipe)[:3] if n.family in NESTING_FAMILIES]
    if not written or not slow or count < MIN_NESTED_PER_BATCH:
        return None
    reads = any(
        op.startswith(FILE_DATASET_OPS) and times >= MIN_FILE_DATASET_SHARE * count for op, times in counts.items()
    )
    return NestedDatasets(pipe, slow[0], written[-1], count) if reads is of_files else None


def as_ready_in_memory(node: Node, elements: float, size_bytes: float = 0.0) -> Node:
    """Return ``node`` if its elements were ready in memory."""
    return replace(node, ms=min(node.ms, elements * READY_ELEMENT_US / 1e3 + size_bytes / COPY_BYTES_PER_MS))


def free_host_bytes(trace: Trace) -> float | None:
    """Return the host memory that was free at all times, within a container's limit."""
    column = trace.samples.get("available_bytes")
    free = float(np.nanmin(column)) if column is not None and len(column) and not np.all(np.isnan(column)) else None
    if free is None:
        free = trace.fact("machine", "memory", "available_bytes")
    limit, used = (
        trace.fact("machine", "cgroup", "memory_limit_bytes"),
        trace.fact("machine", "cgroup", "memory_used_bytes"),
    )
    if limit:
        free = min(free if free is not None else float(limit), float(limit) - float(used or 0))
    return float(free) if free is not None else None


class StorageRoom(Struct, frozen=True):
    """The free bytes in memory, or on the disk of the working folder, that may keep results."""

    free_bytes: float
    on_disk: bool

    @property
    def numbers(self) -> dict[str, float]:
        return {"free_bytes": self.free_bytes, "on_disk": float(self.on_disk)}

    @property
    def where(self) -> str:
        return " on the disk" if self.on_disk else ""


def storage_room(trace: Trace, size: float) -> StorageRoom | None:
    """Return where ``size`` bytes fit and leave as many bytes free; None if they do not fit or it is unknown."""
    free, folder = free_host_bytes(trace), trace.fact("machine", "working_folder") or {}
    if free is None or size <= MAX_FREE_MEMORY_SHARE * free:
        return StorageRoom(free, False) if free is not None else None
    left = float(folder.get("free_bytes") or 0) if folder.get("filesystem") in LOCAL_FILE_SYSTEMS else 0.0
    return StorageRoom(left, True) if size <= MAX_FREE_MEMORY_SHARE * left else None


def uses_worker_processes(trace: Trace) -> bool:
    """Return whether worker processes make the batches (``use_multiprocessing``); they are not recorded."""
    return any(e.data.get("processes") for e in trace.events_of("loop") if not e.data.get("nested"))


def waits_for_worker_threads(trace: Trace) -> bool:
    """Return whether steps wait for batches of a ``PyDataset`` that several Keras threads make ahead."""
    fits = [e.data for e in trace.events_of("loop") if e.data.get("workers") and not e.data.get("nested")]
    several = any(int(fit["workers"]) > 1 and not fit.get("processes") for fit in fits)
    return several and trace.mean(Category.INPUT) > MIN_WAIT_SHARE * trace.step_ms


def user_producers(trace: Trace) -> list[Producer]:
    """Return the user's Python that makes input inside the pipeline, costliest first."""
    users = [p for p in trace.producers if p.place is not None or p.lines or p.kind == "profiled"]
    return sorted(users, key=lambda p: -p.ms_per_step)


def merge_producer_lines(several: list[Producer]) -> list[Line]:
    """Return their traced lines by share of time; a generator that fit creates repeatedly counts once."""
    found: dict[Place, Line] = {}
    total = sum(p.ms_per_step for p in several if p.lines) or 1.0
    for one in several:
        for line in one.lines:
            weight = line.share * one.ms_per_step / total
            old = found.get(line.place)
            found[line.place] = Line(line.place, line.ms, line.visits, weight + (old.share if old else 0.0))
    return sorted(found.values(), key=lambda line: -line.share)


def data_passes(pipe: Pipeline) -> int:
    """Return passes over the data: iterators, or passes of a ``repeat`` of something of known length."""
    elements = next((n.elements * pipe.batches for n in pipe.nodes if repeats_input(n.name)), 0.0)
    again = next((pipe.written[w.inputs[0]] for w in pipe.written if w.family == "Repeat" and w.inputs), None)
    length = int((again.detail.get("cardinality") if again is not None else 0) or 0)
    return max(int(elements / length), pipe.epochs) if length > 0 else pipe.epochs


def expected_passes(trace: Trace, pipe: Pipeline) -> int:
    """Return passes over the data: those that began, or those that `fit` would have made.

    The latter is used if the recording ended within the first pass. This is known from the data set's length in
    batches; for a repeated data set from the length of its input. A `fit` that counts its steps makes no passes.
    """
    length = pipe.written[-1].detail.get("cardinality") if pipe.written else None
    passes = data_passes(pipe)
    if passes > 1 or not isinstance(length, int) or not 0 < pipe.batches < length:
        return passes
    return max((n for n in _fit_epochs(trace) if isinstance(n, int)), default=1)


def is_asked_beyond_end(trace: Trace) -> bool:
    """Return whether ``fit`` finds the end of a data set of unknown length by an empty iterator, and then continues.

    That call of the train step raises, but still counts as an optimizer step (Keras 3.15), which affects its learning
    rate schedule. A data set of known length is not read beyond its end.
    """
    given = _fit_epochs(trace)
    return len(given) > 1 or any(epochs != 1 for epochs in given)


def _fit_epochs(trace: Trace) -> list[Any]:
    """Return the given epochs of each ``fit`` that reads its data to the end in every epoch."""
    fits = (e.data for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("steps_per_epoch"))
    return [fit.get("epochs") for fit in fits]


def epoch_result_bytes(pipe: Pipeline, node: Node) -> float | None:
    """Return the bytes of a node's results for one epoch, None if shapes or length are unknown.

    TensorFlow does not know how many records a file holds, or how many elements a repeated data set gives per pass.
    Then the counted elements are used.
    """
    if node.written is None:
        return None
    size, length = node.written.element_bytes, node.written.detail.get("cardinality")
    if size is None and node.bytes_produced and node.elements:
        size = int(node.bytes_produced / node.elements)
    if length == UNKNOWN_CARDINALITY or (length == INFINITE_CARDINALITY and data_passes(pipe) > pipe.epochs):
        length = calls_per_batch(pipe, node) * pipe.batches / data_passes(pipe)
    if size is None or not length or length < 0:
        return None
    return float(size) * int(length)


def handover_ms_by_category(trace: Trace) -> dict[Category, float]:
    """Return ms per step that go with each copy: making its tensor, the call that starts it, and the copy itself."""
    starting = trace.device.idle.get("h2d", 0.0) if trace.device is not None else 0.0
    return {
        Category.CONVERT: trace.mean(Category.CONVERT),
        Category.FEED: trace.mean(Category.FEED),
        Category.DISPATCH: min(starting, trace.mean(Category.DISPATCH)),
    }
