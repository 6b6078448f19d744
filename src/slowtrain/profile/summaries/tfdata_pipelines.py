"""The input pipeline from a profile: the stages that were iterated, in the form that recordings have.

Time and elements are per batch. Times per element are means over the recorded spans. The number of elements per batch
is known if the stage itself gives it (a batch's size, one for one in a map), else it is counted. Counting is inexact:
in a window of few steps a stage that works ahead is recorded more or less often than its consumer requests.

The profile names the data sets as written, with shapes and dtypes of their elements. It does not contain their source
lines, all ops of a function (cheap ones are left out), or their lengths (``Signal.WRITTEN``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain.columns.device import Producer
from slowtrain.columns.input_pipeline import ASYNC_PREFIXES, PYTHON_OPS, Node, Pipeline, WrittenDataset, node_family
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import tfdata_stages
from slowtrain.profile.summaries.tfdata_stages import StageActivity, consumer_path

# Families with one input element per output element, as long as no epoch ends.
ONE_FOR_ONE_FAMILIES = frozenset({"Root", "Prefetch", "Map", "Shuffle", "Repeat", "Cache", "Take", "Skip", "Zip",
    "Options",
                         "Enumerate", "Model", "AssertCardinality", "MaxIntraOpParallelism", "Scan"})  # fmt: skip
MAX_BATCHES_PER_STEP = 1.1  # most batches per step of a data set that only feeds the steps
MIN_SEEN_CALL_SHARE = 0.5  # of an asynchronous stage's function calls that need recorded turns for a measured time
TENSOR_TYPE_BYTES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "int16": 2, "uint16": 2,
         "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
MAX_STAGES = 1000  # a real pipeline has fewer


def profile_pipelines(space: xplane.Space, threads: Sequence[HostThread], found: StepTimes) -> tuple[Pipeline, ...]:
    """Return the data sets that were iterated during the steps, the one with the most batches first."""
    if not len(found) or not tfdata_stages.has_iterators(space):
        return ()
    begin, end = float(found.start_ms[0]), float(found.end_ms[-1])
    holders = {t.label for t in threads if any(text.startswith(framework_names.ITERATOR_PREFIX) for text in t.texts)}
    stages = tfdata_stages.read_stages(space, holders, begin, end)
    groups: dict[int, dict[str, StageActivity]] = {}
    for (root, path), stage in stages.items():
        groups.setdefault(root, {})[path] = stage
    pipelines = []
    for several in _group_equal_iterators(groups.values()):
        one = _build_pipeline(_join_iterators(several), begin, end)
        if one is not None:
            # Each epoch has its own iterator. A data set with more batches than steps is also used for validation.
            passes = len(several) if one.batches <= MAX_BATCHES_PER_STEP * len(found) else 1
            one = replace(one, epochs=max(one.epochs, passes))
            pipelines.append(replace(one, nodes=()) if _is_device_copy(one, space) else one)
    return tuple(sorted(pipelines, key=lambda p: -p.batches))


def pipeline_producers(pipes: Iterable[Pipeline]) -> tuple[Producer, ...]:
    """Return the Python inside the pipeline that feeds the steps, costliest first. Its lines are unknown."""
    fed = max(pipes, key=lambda p: p.batches, default=None)
    found = []
    for node in fed.nodes if fed is not None else ():
        timed = node.written.detail.get("python_ms") if node.written is not None else None
        if timed and fed is not None:
            label = f"the function of {node.name}"
            found.append(Producer("profiled", label, None, float(timed[0]), float(timed[1])))
    return tuple(sorted(found, key=lambda p: -p.ms_per_step))


def _group_equal_iterators(groups: Iterable[dict[str, StageActivity]]) -> Iterable[list[dict[str, StageActivity]]]:
    """Group iterators whose stages have the same names."""
    found: dict[tuple[tuple[str, str], ...], list[dict[str, StageActivity]]] = {}
    for group in groups:
        if len(group) <= MAX_STAGES:
            signature = tuple(sorted((path, str(s.facts.get(framework_names.NODE_NAME))) for path, s in group.items()))
            found.setdefault(signature, []).append(group)
    return found.values()


def _join_iterators(groups: Sequence[dict[str, StageActivity]]) -> dict[str, StageActivity]:
    """Return the stages of equal iterators, with the stages that have recorded inputs and no span.

    A stage has no span if none of its spans ended in the window.
    """
    found = groups[0]
    for group in groups[1:]:
        for path, stage in group.items():
            found[path].add(stage)
    for path in groups[0].copy():
        while path := consumer_path(path):
            found.setdefault(path, StageActivity())
    return found


def _is_device_copy(pipe: Pipeline, space: xplane.Space) -> bool:
    """Return whether this is a device's part of a distributed data set.

    Then the part that makes the batches was not recorded.
    """
    sources = [n for n in pipe.nodes if not n.inputs]
    if not sources or any(n.name != "Generator" or (n.written is not None and n.written.python) for n in sources):
        return False
    return any(framework_names.MULTI_DEVICE in text for plane in space.planes for text in plane.event_names.values())


def _build_pipeline(group: dict[str, StageActivity], begin: float, end: float) -> Pipeline | None:
    """Build a pipeline with nodes from the sources to the consumer; None without a single root."""
    top = [p for p in group if not consumer_path(p)]
    if len(top) != 1:
        return None
    root = group[top[0]]
    batch_ms = np.concatenate(root.begun or [np.zeros(0)])
    batches = int(((batch_ms >= begin) & (batch_ms < end)).sum())
    ordered = sorted(group, key=lambda p: (-p.count("::"), p))
    if "Root" in ordered:
        ordered.remove("Root")
    elements = _elements_per_batch(group, top[0])
    number = {path: i for i, path in enumerate(ordered)}
    asked: dict[str, list[int]] = {}
    for path in ordered:
        asked.setdefault(consumer_path(path), []).append(number[path])
    written: list[WrittenDataset] = []
    nodes: list[Node] = []
    last: dict[str, int] = {}  # the last data set of each stage
    for path in ordered:
        inputs = tuple(asked.get(path, ()))
        mine = _stage_datasets(path, group[path], elements[path], tuple(last[ordered[i]] for i in inputs), len(written))
        written += mine
        last[path] = len(written) - 1
        nodes.append(_build_node(number[path], path, inputs, group[path], elements[path], mine[0]))
    if not nodes:
        return None
    if not all(_is_timed(group[path], path) for path in ordered):
        nodes = []  # the time of its functions was not recorded, so that only the written stages are known
    # Processors that tf.data may use: its tuning budget, else the number of threads in its pool.
    cores = root.facts.get("cpu_budget", root.facts.get("threadpool_size"))
    epochs = max(stage.epochs for stage in group.values())
    return Pipeline(tuple(written), tuple(nodes), batches, cpu_budget=_number_or_none(cores), epochs=epochs)


def prefilled_batches(pipe: Pipeline) -> float:
    """Return batches that the steps used and that were made before the profile began."""
    sources = [n for n in pipe.nodes if not n.inputs and n.elements and n.written is not None]
    read_batches = [float(n.written.detail["seen"]) / n.elements for n in sources if n.written is not None]
    return max(pipe.batches - min(read_batches, default=pipe.batches), 0.0)


def pipeline_busy_ms(pipe: Pipeline) -> float:
    """Return the approximate processor time of its threads in all steps, without waits for Python's lock."""
    return sum(float(w.detail.get("spent_ms") or 0.0) for w in pipe.written)


def _stage_type(path: str) -> str:
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[2])


def _is_asynchronous(path: str) -> bool:
    return _stage_type(path).startswith(ASYNC_PREFIXES)


def _number_or_none(value: float | str | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _is_timed(stage: StageActivity, path: str) -> bool:
    """Return whether a stage's work is in its own spans or in recorded turns."""
    return not (_is_asynchronous(path) and stage.outside and stage.seen < MIN_SEEN_CALL_SHARE * stage.calls)


# -- per batch


def _elements_per_batch(group: Mapping[str, StageActivity], top: str) -> dict[str, float]:
    """Return elements of each stage per batch, from the consumer to the sources."""
    found = {top: 1.0}
    for path in sorted(group, key=lambda p: p.count("::")):
        above = consumer_path(path)
        if not above:
            continue
        consumer, kind = group[above], node_family(_stage_type(above))
        size = _number_or_none(consumer.facts.get("batch_size"))
        if size and (kind == "Batch" or _stage_type(above).startswith("MapAndBatch")):
            each = size
        elif kind in ONE_FOR_ONE_FAMILIES:
            each = 1.0
        else:
            each = group[path].count / consumer.count if consumer.count else 1.0
        found[path] = found[above] * each
    return found


def _calls_per_batch(path: str, stage: StageActivity, elements: float) -> float:
    """Return how often a stage's function is called per batch."""
    kind = _stage_type(path)
    if kind.startswith("MapAndBatch"):
        return elements * (_number_or_none(stage.facts.get("batch_size")) or 1.0)
    if node_family(kind) == "Map":
        return elements
    return elements * stage.calls / stage.count if stage.count else 0.0


def _build_node(
    number: int, path: str, inputs: tuple[int, ...], stage: StageActivity, elements: float, written: WrittenDataset
) -> Node:
    ms = 0.0
    calls = _calls_per_batch(path, stage, elements)
    if _is_asynchronous(path):  # its own spans are waits for its threads
        if stage.outside and stage.seen:
            ms += stage.function_ms / stage.seen * calls
        if stage.calls:
            ms += stage.produce_ms / stage.calls * calls
    elif stage.count:
        ms += stage.self_ms / stage.count * elements
    facts = stage.facts
    size = _number_or_none(facts.get("element_size"))
    return Node(
        number, _stage_type(path), inputs, ms, elements, _number_or_none(facts.get("parallelism")),
        facts.get("autotune") == "true",
        _number_or_none(facts.get("buffer_limit")), (_number_or_none(facts.get("buffered_bytes_MB")) or 0.0) * 1e6,
        size * elements if size else (written.element_bytes or 0) * elements, written,
    )  # fmt: skip


# -- as it was written


def _stage_datasets(
    path: str, stage: StageActivity, elements: float, inputs: tuple[int, ...], at: int
) -> list[WrittenDataset]:
    """Return the data sets in a stage, inputs first, because TensorFlow fuses some.

    The function belongs to the first.
    """
    name = str(stage.facts.get(framework_names.NODE_NAME, ""))
    ops = [m[1] for m in re.finditer(framework_names.DATASET_NODE, name)] or [
        re.sub(r"V\d+$", "", _stage_type(path)) + "Dataset"
    ]
    found = []
    for i, op in enumerate(ops):
        detail: dict[str, Any] = {"profiled": True}
        size = _number_or_none(stage.facts.get("batch_size"))
        if op.removesuffix("Dataset").endswith("Batch") and size:
            detail["batch_size"] = int(size)
        if i == len(ops) - 1:
            detail["element"] = _element_parts(stage)
        if i == 0:
            detail |= _function_detail(path, stage, elements)
            own = stage.function_ms + stage.produce_ms if _is_asynchronous(path) else stage.self_ms
            detail |= {"spent_ms": own - stage.locked_ms, "seen": stage.count}
        found.append(WrittenDataset(op, inputs if i == 0 else (at + i - 1,), None, detail))
    return found


def _function_detail(path: str, stage: StageActivity, elements: float) -> dict[str, Any]:
    """Return the ops of a stage's function per call; if they run Python, also its ms and calls per batch."""
    if not stage.ops or not stage.seen:
        return {}
    found: dict[str, Any] = {"ops": {t: max(round(n / stage.seen), 1) for t, (_, n) in stage.ops.items()}}
    python = [row for kind, row in stage.ops.items() if kind in PYTHON_OPS]
    if python:
        calls = _calls_per_batch(path, stage, elements)
        each = calls / stage.seen
        found["python_ms"] = stage.python_ms * each, sum(n for _, n in python) * each
        if node_family(_stage_type(path)) != "Map":
            found["python"] = "a generator"
    return found


def _element_parts(stage: StageActivity) -> list[dict[str, Any]] | None:
    """Return shape and item size of each part, from "[?,64,64,3] [?]" and "float int64"."""
    shapes, types = str(stage.facts.get("shapes", "")), str(stage.facts.get("types", "")).split()
    parts = [m[1] for m in re.finditer(framework_names.ELEMENT_SHAPE, shapes)]
    if len(parts) != len(types) or not parts:
        return None
    sized = zip(parts, types, strict=True)  # the length of strings is unknown
    return [
        {"shape": _parse_dims(part) if kind in TENSOR_TYPE_BYTES else None, "bytes": TENSOR_TYPE_BYTES.get(kind, 0)}
        for part, kind in sized
    ]


def _parse_dims(part: str | None) -> list[int | None] | None:
    if part is None:
        return None
    return [int(d) if d.strip().isdigit() else None for d in part.split(",") if d.strip()]
