"""What a trace tells of how its steps are fed: the facts that several causes of the input family share."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from slowtrain.model import Category, Place
from slowtrain.trace import Kernels, Line, Producer, Trace, names
from slowtrain.trace.ordered import halfway
from slowtrain.trace.pipeline import Node, Pipeline, Written, repeats
from slowtrain.values import dataclass

WAITED = 0.05  # of a step: what saves less is not reported either
USUAL = 0.1  # of a usual step: with less, the wait is that of a few steps
SLOWER = 0.6  # a stage is the slower side when it takes this share of the slowest one's time
READ_US = (
    0.5  # handing on an element that is ready in memory (0.3 to 0.7 µs for TensorSlice and Batch, TensorFlow 2.21)
)
COPY_BYTES_PER_MS = 4e6  # copying a batch in memory at 4 GB/s, assumed: one core does as much at least
CALL_MS = 0.05  # one call of a function on a whole batch: what a call for one element takes at most
NESTED = re.compile(r"Dataset(?:V\d+)?$")
NESTING = frozenset({"Interleave", "FlatMap"})
OPENERS = ("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset")
OPENED = 0.25  # of the data sets that are made most: a file's, with one or two around it
LEAST_NESTED = 8.0  # data sets a batch: an interleave over shards makes one for thousands of elements
READING = frozenset({"ReadFile", "ReaderReadV2", "WholeFileReaderV2"})
# Ops that take one element only: a map with one of them cannot simply follow the batch.
SINGLE = (
    "DecodeJpeg",
    "DecodePng",
    "DecodeImage",
    "DecodeBmp",
    "DecodeGif",
    "DecodeWav",
    "DecodeAndCrop",
    "ReadFile",
    "SampleDistorted",
)


def wait_share(trace: Trace) -> float:
    """The part of a step that is spent waiting for its batch."""
    return trace.share(Category.INPUT)


def usually_waits(trace: Trace) -> bool:
    """Whether the usual step waits for its batch, and not a few steps for long."""
    wait, steady = trace.categories.get(Category.INPUT), trace.steps.steady
    if wait is None or not steady.any():
        return False
    return float(halfway(wait[steady])) > USUAL * float(halfway(trace.steps.ms[steady]))


def busy_cores(trace: Trace) -> float | None:
    """Processors that the process kept busy during the steps; None where it was not measured.

    While it waits for other processes of the training its cores idle, whatever it does: that time does not count.
    """
    cpu = trace.facts.get("cpu_ms_per_step")
    own_ms = trace.step_ms - trace.mean(Category.COLLECTIVE_WAIT) if trace.step_ms else 0.0
    return float(cpu) / own_ms if cpu and own_ms > 0 else None


def idle_cores(trace: Trace) -> float:
    """Processors that had nothing to do during the steps; all but one where it was not measured."""
    busy = busy_cores(trace)
    return max(trace.cores - (busy if busy is not None else 1.0), 0.0)


def fed(trace: Trace) -> Pipeline | None:
    """The pipeline with counters that the steps wait for, or None."""
    pipe = trace.pipeline
    return pipe if pipe is not None and pipe.nodes and wait_share(trace) >= WAITED else None


def is_users(node: Node) -> bool:
    """Whether the user wrote it; Keras and TensorFlow add nodes of their own. Of a profile's it is assumed."""
    return node.written is not None and (node.written.place is not None or "profiled" in node.written.detail)


def deciding(pipe: Pipeline) -> list[Node]:
    """Nodes of the stages that set the pace, costliest first."""
    most = pipe.made_ms
    stages = [s for s in pipe.stages() if s.latency_ms >= SLOWER * most and s.ms > 0]
    return sorted((n for s in stages for n in s.nodes), key=lambda n: -n.ms)


def maps(pipe: Pipeline) -> list[Node]:
    """The user's ``map`` nodes among those that set the pace and take most of their stage."""
    found = deciding(pipe)
    return [n for n in found if n.family == "Map" and is_users(n) and n.ms >= 0.5 * max(m.ms for m in found)]


def calls(pipe: Pipeline, node: Node) -> float:
    """How often a node's function is called for a batch."""
    if node.name.startswith("MapAndBatch"):
        return node.elements * pipe.batch_size
    return node.elements


def batched(node: Node, ms: float) -> Node:
    """A map that is called once for a batch and takes ``ms`` for it.

    TensorFlow makes one node of a map and the batch behind it; the map of whole batches has none behind it.
    """
    name = "ParallelMapV2" if node.name.startswith("MapAndBatch") else node.name
    return replace(node, name=name, ms=min(ms, node.ms), elements=1.0)


def written_place(node: Node) -> tuple[Place, ...]:
    """The user's line of a node and of its function."""
    place = node.written.place if node.written else None
    function = (node.written.detail.get("function") or {}) if node.written else {}
    found = [place] if place else []
    if function.get("file") and function.get("user"):
        found.append(Place(str(function["file"]), int(function["line"])))
    return tuple(dict.fromkeys(found))


UNCALLED = frozenset({"Const", "Placeholder", "Identity", "NoOp"})  # take no call of a kernel, or next to none
UNSEEN_US = 20.0  # for each op of a function, starting it included: what takes longer on average is profiled


def written_as(op: str) -> str:
    """The type of an op as the script's function has it: ``Conv2D`` for ``_FusedConv2D``."""
    return names.FUSED_OP.sub("", op, count=1) if op.startswith("_") else op


def op_ms(trace: Trace, node: Node, only: frozenset[str] | None = None) -> float | None:
    """Time a batch inside ops of a node's function that take long enough to be profiled.

    None without a window, or where no element was made in it, and calls take longer than ops that are too short
    to be seen could. The window holds more or fewer elements than its steps ask for: time per call is what counts.
    """
    deep, pipe = trace.kernels, trace.pipeline
    if deep is None or pipe is None or node.written is None or (not deep.by_input and not deep.steps):
        return None
    mine, seen = _profiled(deep, node.written)
    if seen <= 0:
        if deep.input_calls == 0:  # a buffer had been filled before
            return None
        unseen = 1e3 * node.ms > UNSEEN_US * sum(node.written.ops.values()) * calls(pipe, node)
        return None if unseen else 0.0
    each = sum(ms for t, (ms, _) in mine.items() if only is None or t in only) / seen
    return each * calls(pipe, node)


def _profiled(deep: Kernels, function: Written) -> tuple[dict[str, tuple[float, float]], float]:
    """The input's ops that a function has, with ms and how often they ran in a window's step; its calls meanwhile."""
    mine = {t: row for t, row in deep.by_input.items() if written_as(t) in function.ops}
    return mine, max((count / max(function.ops[written_as(t)], 1) for t, (_, count) in mine.items()), default=0.0)


def ops_run(trace: Trace, node: Node) -> float:
    """Ops that one call of a node's function starts.

    As many as are written, but for those that TensorFlow computed once and made constants of: of their kind the
    profiler saw fewer than one for each that is written. Kinds that are too short to be seen count as written.
    """
    if node.written is None:
        return 0.0
    written = {op: float(n) for op, n in node.written.ops.items() if op not in UNCALLED}
    mine, seen = _profiled(trace.kernels, node.written) if trace.kernels is not None else ({}, 0.0)
    ran: dict[str, float] = {}
    for op, (_, count) in mine.items() if seen > 0 else ():
        ran[written_as(op)] = ran.get(written_as(op), 0.0) + count / seen
    return sum(min(n, ran.get(op, n)) for op, n in written.items())


def takes_batches(function: Written) -> bool:
    """Whether a function could work on whole batches: no op in it takes one element only."""
    return not function.python and not any(op.startswith(SINGLE) for op in function.ops)


@dataclass(frozen=True)
class Nest:
    """An ``interleave`` or ``flat_map`` whose function makes ``count`` data sets for each batch.

    To make and to end one takes longer than to hand on an element, and stands in no node's own time.
    """

    pipe: Pipeline
    node: Node
    place: Place
    count: float

    def undone(self) -> Pipeline:
        """The pipeline if its elements came as they are, without data sets of their own."""
        inside = [self.node, *self.pipe.upstream(self.node)]
        return self.pipe.changed(*(replace(n, ms=min(n.ms, CALL_MS + n.elements * READ_US / 1e3)) for n in inside))

    def in_batches(self) -> Pipeline:
        """The same if whole batches came: the maps behind are called once for each, where they can work on one."""
        behind = [n for n in self.pipe.nodes if self.node in self.pipe.upstream(n) and n.family == "Map"]
        able = [n for n in behind if n.written is not None and takes_batches(n.written)]
        return self.undone().changed(*(batched(n, CALL_MS + calls(self.pipe, n) * READ_US / 1e3) for n in able))


def nest(trace: Trace, *, of_files: bool) -> Nest | None:
    """The one that sets the pace, where a profiler window saw data sets made, of files or of what is in memory."""
    deep, pipe = trace.kernels, fed(trace)
    if deep is None or pipe is None:
        return None
    made = {op: count for op, (_, count) in deep.by_input.items() if NESTED.search(op)}
    count = max(made.values(), default=0.0)
    written = [w.place for w in pipe.written if w.family in NESTING and w.place is not None]
    # TensorFlow itself goes through a data set of files.
    written = written or [w.place for w in pipe.written if w.op.startswith(OPENERS) and w.place is not None]
    slow = [n for n in deciding(pipe)[:3] if n.family in NESTING]
    if not written or not slow or count < LEAST_NESTED:
        return None
    reads = any(op.startswith(OPENERS) and times >= OPENED * count for op, times in made.items())
    return Nest(pipe, slow[0], written[-1], count) if reads is of_files else None


def ready(node: Node, elements: float, size_bytes: float = 0.0) -> Node:
    """``node`` if its elements lay ready in memory."""
    return replace(node, ms=min(node.ms, elements * READ_US / 1e3 + size_bytes / COPY_BYTES_PER_MS))


def free_bytes(trace: Trace) -> float | None:
    """Host memory that was free throughout, within a container's limit."""
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


def in_processes(trace: Trace) -> bool:
    """Whether worker processes make the batches (``use_multiprocessing``): of these nothing is recorded."""
    return any(e.data.get("processes") for e in trace.events_of("loop") if not e.data.get("nested"))


def in_threads(trace: Trace) -> bool:
    """Whether steps wait for batches of a ``PyDataset`` that several threads of Keras's make ahead."""
    fits = [e.data for e in trace.events_of("loop") if e.data.get("workers") and not e.data.get("nested")]
    several = any(int(fit["workers"]) > 1 and not fit.get("processes") for fit in fits)
    return several and trace.mean(Category.INPUT) > WAITED * trace.step_ms


def producers(trace: Trace) -> list[Producer]:
    """The user's Python that makes input inside the pipeline, costliest first."""
    users = [p for p in trace.producers if p.place is not None or p.lines or p.kind == "profiled"]
    return sorted(users, key=lambda p: -p.ms_per_step)


def joined_lines(several: list[Producer]) -> list[Line]:
    """Their traced lines, by share of the time; a generator that fit made anew each time counts once."""
    found: dict[Place, Line] = {}
    total = sum(p.ms_per_step for p in several if p.lines) or 1.0
    for one in several:
        for line in one.lines:
            weight = line.share * one.ms_per_step / total
            old = found.get(line.place)
            found[line.place] = Line(line.place, line.ms, line.visits, weight + (old.share if old else 0.0))
    return sorted(found.values(), key=lambda line: -line.share)


INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2  # tf.data's


def turns(pipe: Pipeline) -> int:
    """Passes over the data: iterators that were begun, or those that a ``repeat`` of something of known length made."""
    given = next((n.elements * pipe.batches for n in pipe.nodes if repeats(n.name)), 0.0)
    again = next((pipe.written[w.inputs[0]] for w in pipe.written if w.family == "Repeat" and w.inputs), None)
    length = int((again.detail.get("cardinality") if again is not None else 0) or 0)
    return max(int(given / length), pipe.epochs) if length > 0 else pipe.epochs


def result_bytes(pipe: Pipeline, node: Node) -> float | None:
    """Bytes that a node's results take for one epoch, None where its shapes or its length are unknown.

    TensorFlow does not know how many records a file holds, nor how many a data set that repeats itself gives in a pass;
    how many came of it was counted.
    """
    if node.written is None:
        return None
    size, length = node.written.element_bytes, node.written.detail.get("cardinality")
    if size is None and node.bytes_produced and node.elements:
        size = int(node.bytes_produced / node.elements)
    if length == UNKNOWN_CARDINALITY or (length == INFINITE_CARDINALITY and turns(pipe) > pipe.epochs):
        length = calls(pipe, node) * pipe.batches / turns(pipe)
    if size is None or not length or length < 0:
        return None
    return float(size) * int(length)
