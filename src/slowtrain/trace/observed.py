"""The input pipeline as a profile shows it: the stages that iterated, in the words that recordings use for theirs.

Time and elements are per batch. Per element of a stage they are means over the spans seen; how many elements a batch
takes is known where the stage itself says so (a batch's size, one for one in a map) and counted elsewhere: in a window
of few steps a producer that works ahead was seen more or less often than its consumer asked.

The profile names the data sets as they were written, with the shapes and dtypes of their elements; not their source
lines, not all ops of a function (cheap ones are left out), not how long they are (``Signal.WRITTEN``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slowtrain.trace import Producer, iterators, names, xplane
from slowtrain.trace.cadence import Cadence
from slowtrain.trace.iterators import Stage, outer
from slowtrain.trace.pipeline import ASYNC, PYTHON_OPS, Node, Pipeline, Written, family
from slowtrain.trace.timeline import Thread

# One element in for one out, as long as no epoch ends.
ONE_FOR_ONE = frozenset({"Root", "Prefetch", "Map", "Shuffle", "Repeat", "Cache", "Take", "Skip", "Zip", "Options",
                         "Enumerate", "Model", "AssertCardinality", "MaxIntraOpParallelism", "Scan"})  # fmt: skip
FEWER = 1.1  # batches a step, at most, of a data set that only feeds the steps
SEEN = 0.5  # of the calls of an asynchronous stage's function, of which turns of a thread must be there to time it
SIZES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2,
         "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
MOST_STAGES = 1000  # more is no pipeline that anybody wrote


def pipelines(space: xplane.Space, threads: Sequence[Thread], found: Cadence) -> tuple[Pipeline, ...]:
    """The data sets that were iterated during the steps; the one that gave most batches comes first."""
    if not len(found) or not iterators.present(space):
        return ()
    begin, end = float(found.start_ms[0]), float(found.end_ms[-1])
    holders = {t.label for t in threads if any(text.startswith(names.ITERATOR) for text in t.texts)}
    stages = iterators.stages(space, holders, begin, end)
    groups: dict[int, dict[str, Stage]] = {}
    for (root, path), stage in stages.items():
        groups.setdefault(root, {})[path] = stage
    made = []
    for several in _alike(groups.values()):
        one = _pipeline(_with_missing(_joined(several)), begin, end)
        if one is not None:
            # Each epoch iterates the data set anew; what gives more batches than there are steps validates, too.
            anew = len(several) if one.batches <= FEWER * len(found) else 1
            one = replace(one, epochs=max(one.epochs, anew))
            made.append(replace(one, nodes=()) if _copies(one, space) else one)
    return tuple(sorted(made, key=lambda p: -p.batches))


def producers(pipes: Iterable[Pipeline]) -> tuple[Producer, ...]:
    """Python that runs inside the pipeline which feeds the steps, costliest first. Where it stands is not known."""
    fed = max(pipes, key=lambda p: p.batches, default=None)
    found = []
    for node in fed.nodes if fed is not None else ():
        timed = node.written.detail.get("python_ms") if node.written is not None else None
        if timed and fed is not None:
            label = f"the function of {node.name}"
            found.append(Producer("profiled", label, None, float(timed[0]), float(timed[1])))
    return tuple(sorted(found, key=lambda p: -p.ms_per_step))


def _alike(groups: Iterable[dict[str, Stage]]) -> Iterable[list[dict[str, Stage]]]:
    """Iterators of stages of the same names together."""
    found: dict[tuple[tuple[str, str], ...], list[dict[str, Stage]]] = {}
    for group in groups:
        if len(group) <= MOST_STAGES:
            signature = tuple(sorted((path, str(s.facts.get(names.NODE_NAME))) for path, s in group.items()))
            found.setdefault(signature, []).append(group)
    return found.values()


def _joined(groups: Sequence[dict[str, Stage]]) -> dict[str, Stage]:
    found = groups[0]
    for group in groups[1:]:
        for path, stage in group.items():
            found[path].add(stage)
    return found


def _copies(pipe: Pipeline, space: xplane.Space) -> bool:
    """Whether it is a device's part of a distributed data set: what makes the batches was not seen then."""
    sources = [n for n in pipe.nodes if not n.inputs]
    if not sources or any(n.name != "Generator" or (n.written is not None and n.written.python) for n in sources):
        return False
    return any(names.MULTI_DEVICE in text for plane in space.planes for text in plane.event_names.values())


def _with_missing(group: Mapping[str, Stage]) -> dict[str, Stage]:
    """Also the stages that only their inputs tell of: no span of theirs ended in the window."""
    found = dict(group)
    for path in group:
        while path := outer(path):
            found.setdefault(path, Stage())
    return found


def _pipeline(group: dict[str, Stage], begin: float, end: float) -> Pipeline | None:
    """Nodes from the sources to the consumer."""
    top = [p for p in group if not outer(p)]
    if len(top) != 1:
        return None
    root = group[top[0]]
    given = np.concatenate(root.begun or [np.zeros(0)])
    batches = int(((given >= begin) & (given < end)).sum())
    ordered = sorted(group, key=lambda p: (-p.count("::"), p))
    if "Root" in ordered:
        ordered.remove("Root")
    elements = _elements(group, top[0])
    number = {path: i for i, path in enumerate(ordered)}
    asked: dict[str, list[int]] = {}
    for path in ordered:
        asked.setdefault(outer(path), []).append(number[path])
    written: list[Written] = []
    nodes: list[Node] = []
    last: dict[str, int] = {}  # of each stage, the last of the data sets in it
    for path in ordered:
        inputs = tuple(asked.get(path, ()))
        mine = _written(path, group[path], elements[path], tuple(last[ordered[i]] for i in inputs), len(written))
        written += mine
        last[path] = len(written) - 1
        nodes.append(_node(number[path], path, inputs, group[path], elements[path], mine[0]))
    if not nodes:
        return None
    if not all(_timed(group[path], path) for path in ordered):
        nodes = []  # what its functions take was not seen: only what there is can be told
    # Processors that tf.data may use: what it was given to tune itself, else as many threads as its pool has.
    cores = root.facts.get("cpu_budget", root.facts.get("threadpool_size"))
    epochs = max(stage.epochs for stage in group.values())
    return Pipeline(tuple(written), tuple(nodes), batches, cpu_budget=_number(cores), epochs=epochs)


def used_up(pipe: Pipeline) -> float:
    """Batches that the steps took and that were made before the profile began: buffers fill while it starts."""
    sources = [n for n in pipe.nodes if not n.inputs and n.elements and n.written is not None]
    made = [float(n.written.detail["seen"]) / n.elements for n in sources if n.written is not None]
    return max(pipe.batches - min(made, default=pipe.batches), 0.0)


def busy_ms(pipe: Pipeline) -> float:
    """What its threads did in all the steps, about their processor time: without what Python waits for its lock."""
    return sum(float(w.detail.get("spent_ms") or 0.0) for w in pipe.written)


def _type(path: str) -> str:
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[2])


def _asynchronous(path: str) -> bool:
    return _type(path).startswith(ASYNC)


def _number(value: float | str | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _timed(stage: Stage, path: str) -> bool:
    """Whether what a stage does is in its own spans or in turns that were seen."""
    return not (_asynchronous(path) and stage.outside and stage.seen < SEEN * stage.calls)


# -- per batch


def _elements(group: Mapping[str, Stage], top: str) -> dict[str, float]:
    """Elements of each stage a batch, from the consumer to the sources."""
    found = {top: 1.0}
    for path in sorted(group, key=lambda p: p.count("::")):
        above = outer(path)
        if not above:
            continue
        consumer, kind = group[above], family(_type(above))
        size = _number(consumer.facts.get("batch_size"))
        if size and (kind == "Batch" or _type(above).startswith("MapAndBatch")):
            each = size
        elif kind in ONE_FOR_ONE:
            each = 1.0
        else:
            each = group[path].count / consumer.count if consumer.count else 1.0
        found[path] = found[above] * each
    return found


def _calls(path: str, stage: Stage, elements: float) -> float:
    """How often a stage's function is called for a batch."""
    kind = _type(path)
    if kind.startswith("MapAndBatch"):
        return elements * (_number(stage.facts.get("batch_size")) or 1.0)
    if family(kind) == "Map":
        return elements
    return elements * stage.calls / stage.count if stage.count else 0.0


def _node(number: int, path: str, inputs: tuple[int, ...], stage: Stage, elements: float, made: Written) -> Node:
    ms = 0.0
    calls = _calls(path, stage, elements)
    if _asynchronous(path):  # its own spans wait for its threads
        if stage.outside and stage.seen:
            ms += stage.function_ms / stage.seen * calls
        if stage.calls:
            ms += stage.produce_ms / stage.calls * calls
    elif stage.count:
        ms += stage.self_ms / stage.count * elements
    facts = stage.facts
    size = _number(facts.get("element_size"))
    return Node(
        number, _type(path), inputs, ms, elements, _number(facts.get("parallelism")), facts.get("autotune") == "true",
        _number(facts.get("buffer_limit")), (_number(facts.get("buffered_bytes_MB")) or 0.0) * 1e6,
        size * elements if size else (made.element_bytes or 0) * elements, made,
    )  # fmt: skip


# -- as it was written


def _written(path: str, stage: Stage, elements: float, inputs: tuple[int, ...], at: int) -> list[Written]:
    """The data sets in a stage, inputs first; TensorFlow fuses some. Its function belongs to the first of them."""
    name = str(stage.facts.get(names.NODE_NAME, ""))
    ops = [m[1] for m in names.DATASET_NODE.finditer(name)] or [re.sub(r"V\d+$", "", _type(path)) + "Dataset"]
    found = []
    for i, op in enumerate(ops):
        detail: dict[str, Any] = {"profiled": True}
        size = _number(stage.facts.get("batch_size"))
        if op.removesuffix("Dataset").endswith("Batch") and size:
            detail["batch_size"] = int(size)
        if i == len(ops) - 1:
            detail["element"] = _element(stage)
        if i == 0:
            detail |= _function(path, stage, elements)
            own = stage.function_ms + stage.produce_ms if _asynchronous(path) else stage.self_ms
            detail |= {"spent_ms": own - stage.locked_ms, "seen": stage.count}
        found.append(Written(op, inputs if i == 0 else (at + i - 1,), None, detail))
    return found


def _function(path: str, stage: Stage, elements: float) -> dict[str, Any]:
    """Ops seen in a stage's function, how many a call; where they run Python, its ms and calls a batch."""
    if not stage.ops or not stage.seen:
        return {}
    found: dict[str, Any] = {"ops": {t: max(round(n / stage.seen), 1) for t, (_, n) in stage.ops.items()}}
    python = [row for kind, row in stage.ops.items() if kind in PYTHON_OPS]
    if python:
        calls = _calls(path, stage, elements)
        each = calls / stage.seen
        found["python_ms"] = stage.python_ms * each, sum(n for _, n in python) * each
        if family(_type(path)) != "Map":
            found["python"] = "a generator"
    return found


def _element(stage: Stage) -> list[dict[str, Any]] | None:
    """Shape and bytes an item of each part: "[?,64,64,3] [?]" with "float int64"."""
    shapes, types = str(stage.facts.get("shapes", "")), str(stage.facts.get("types", "")).split()
    parts = [m[1] for m in names.ELEMENT_SHAPE.finditer(shapes)]
    if len(parts) != len(types) or not parts:
        return None
    sized = zip(parts, types, strict=True)  # nothing tells how long a text is
    return [{"shape": _dims(part) if kind in SIZES else None, "bytes": SIZES.get(kind, 0)} for part, kind in sized]


def _dims(part: str | None) -> list[int | None] | None:
    if part is None:
        return None
    return [int(d) if d.strip().isdigit() else None for d in part.split(",") if d.strip()]
