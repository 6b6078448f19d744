"""The iterated data sets of a recording, from their counters, and those that were only written.

Without counters (TensorFlow before 2.16, or autotuning off) a pipeline is as written, with profiled times. The time of
its functions comes from their ops in the deep window and from calls of the user's Python. It does not include the cost
of calling them.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import input_pipeline
from slowtrain.columns.arrays import Floats, distinct_values, median_value
from slowtrain.columns.device import Kernels, Producer
from slowtrain.columns.input_pipeline import RANDOM_OP_PREFIXES, CounterHistory, Node, Pipeline, WrittenDataset
from slowtrain.columns.steps import Steps
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import iterator_counters
from slowtrain.trace.loading.iterator_counters import IteratorCounters

MIN_FAR_RATIO = 10  # times the median, for a gap or a step unlike the rest
MIN_FAR_GAPS = 5  # expected number of such gaps among the known ones, if they are as frequent as long steps
MAX_ITERATORS = 200  # of one data set; ten thousand epochs create as many, and each takes a millisecond to read
MAX_READINGS = 100  # of one iterator, including the newest
MIN_NEWEST_READINGS = 5
T = TypeVar("T")
STATEFUL_OPS = ("Random", "Stateful", "Variable", "HashTable", "LookupTable", "ReadVariable")
MAX_STRETCHES = 400  # stretches of one data set; each takes a tenth of a millisecond to read
TimedReadings = Sequence[tuple[float, IteratorCounters]]
NodeKey = tuple[str, int]  # a node's name, and its index in the plan (-1: not written by the user)


def recorded_pipelines(raw: Recording, found: Steps) -> list[Pipeline]:
    plans = {
        e.data.get("number"): input_pipeline.written_datasets(e.data.get("nodes") or ())
        for e in raw.events
        if e.lane == "pipeline"
    }
    event_by_iterator = {e.data.get("number"): e for e in raw.events if e.lane == "iterator"}
    readings: dict[int, list[tuple[float, bytes]]] = {}
    for at, iterator, proto in raw.counters:
        readings.setdefault(iterator, []).append((at, proto))
    chosen, times = choose_readings(
        readings, {i: e.data.get("pipeline") for i, e in event_by_iterator.items() if i is not None}
    )
    merged: dict[Any, list[IteratorReadings]] = {}
    by_keras: dict[Any, bool] = {}
    for iterator, rows in sorted(chosen.items()):
        event = event_by_iterator.get(iterator)
        number = event.data.get("pipeline") if event else None
        begun = event.start_ms if event else rows[0][0]
        read = [(at, iterator_counters.read_counters(proto)) for at, proto in rows]
        merged.setdefault(number, []).append(IteratorReadings(begun, read))
        by_keras[number] = bool(event and event.data.get("keras"))
    result = []
    for number, several in merged.items():
        gaps = [_steady_gaps_us(one.read, found) for one in several]
        each = [([c for _, c in one.read], _usual_gap_ms(column)) for one, column in zip(several, gaps, strict=True)]
        whole = scale_to_all_iterators(
            iterator_counters.merge_iterators(plans.get(number, ()), each, by_keras[number]), times[number]
        )
        far = _far_gap_ms(np.concatenate(gaps), found)
        result.append(replace(whole, far_gap_ms=far, course=counter_history(whole, several)))
    result += [Pipeline(plan) for number, plan in plans.items() if number not in merged]
    return result


def _steady_gaps_us(rows: Sequence[tuple[float, iterator_counters.IteratorCounters]], found: Steps) -> Floats:
    """Return times from the delivery of a batch to the next request, from readings during steady steps.

    Each reading holds the last hundred at most.
    """
    gaps: list[int] = []
    for at, reading in rows:
        i = int(np.searchsorted(found.start_ms, at, side="right")) - 1
        if len(reading.gaps_us) >= 3 and (i < 0 or not found.windowed[min(i, len(found) - 1)]):
            gaps.extend(reading.gaps_us)
    return np.array(gaps, dtype=float)


def _usual_gap_ms(gaps: Floats) -> float | None:
    """Return their mean without those far beyond the rest.

    Such gaps (validation, the end of an epoch) are not part of a step.
    """
    return float(gaps[gaps <= MIN_FAR_RATIO * median_value(gaps)].mean()) / 1e3 if len(gaps) >= 3 else None


def _far_gap_ms(gaps: Floats, found: Steps) -> float | None:
    """Return what gaps far beyond the rest add to the mean gap.

    None if so few gaps are known that those of far longer steps could be missing.
    """
    steady = found.steady_ms
    if (
        len(gaps) < 3
        or not len(steady)
        or len(gaps) * float((steady > MIN_FAR_RATIO * median_value(steady)).mean()) < MIN_FAR_GAPS
    ):
        return None
    return float(gaps.mean()) / 1e3 - (_usual_gap_ms(gaps) or 0.0)


def choose_readings(
    readings: Mapping[int, Sequence[T]], number_of: Mapping[int, Hashable]
) -> tuple[dict[int, list[T]], dict[Hashable, float]]:
    """Return iterators from the whole run, each with some of its readings.

    Also returns for each data set the number of its iterators divided by the number of those chosen.
    """
    groups: dict[Hashable, list[int]] = {}
    for iterator in sorted(readings):
        groups.setdefault(number_of.get(iterator), []).append(iterator)
    found: dict[int, list[T]] = {}
    times: dict[Hashable, float] = {}
    for number, iterators in groups.items():
        mine = _evenly_chosen(iterators, MAX_ITERATORS)
        times[number] = len(iterators) / len(mine)
        for iterator in mine:
            rows = readings[iterator]
            if len(rows) > MAX_READINGS:
                rows = [
                    *_evenly_chosen(rows[:-MIN_NEWEST_READINGS], MAX_READINGS - MIN_NEWEST_READINGS),
                    *rows[-MIN_NEWEST_READINGS:],
                ]
            found[iterator] = list(rows)
    return found, times


def _evenly_chosen(rows: Sequence[T], most: int) -> list[T]:
    if len(rows) <= most:
        return list(rows)
    return [rows[i] for i in distinct_values(np.linspace(0, len(rows) - 1, most).astype(int))]


def scale_to_all_iterators(one: Pipeline, times: float) -> Pipeline:
    """Scale a pipeline's batches and passes to all its iterators, if only some were read."""
    if times == 1.0:
        return one
    return replace(one, batches=round(one.batches * times), epochs=round(one.epochs * times))


def with_profiled_times(
    pipe: Pipeline, deep: Kernels | None, producers: Sequence[Producer], steps: int, epochs: int, cores: float
) -> Pipeline:
    """Return ``pipe`` with a node for each of its data sets; unchanged if nothing of its work was measured."""
    functions = [w for w in pipe.written if w.ops]
    python = sum(p.ms_per_step for p in producers)
    if pipe.nodes or not pipe.written or not ((deep is not None and deep.by_input) or python):
        return pipe
    options = pipe.written[-1].detail.get("options") or {}
    tuned = options.get("autotune") is not False
    elements = _elements_per_batch(pipe.written)
    nodes = []
    for i, one in enumerate(pipe.written):
        ms = _function_op_ms(one, functions, deep.by_input) if deep is not None else 0.0
        runs_python = one.python or "python" in one.detail
        if runs_python and python:
            ms = max(ms, python / max(sum(w.python or "python" in w.detail for w in pipe.written), 1))
        name, width = _running_name(one, tuned, cores)
        nodes.append(
            Node(i, name, tuple(n for n in one.inputs if n >= 0), ms, elements[i], width, False, None, 0.0, 0.0, one)
        )
    return replace(pipe, nodes=tuple(nodes), batches=steps, epochs=max(epochs, 1), counted=False)


def _function_op_ms(
    one: WrittenDataset, functions: Sequence[WrittenDataset], profiled: Mapping[str, tuple[float, float]]
) -> float:
    """Return ms per step of a function's ops; ops of a type that several functions have are divided by their counts."""
    total = 0.0
    for kind, count in one.ops.items():
        if kind in profiled:
            total += profiled[kind][0] * count / sum(w.ops.get(kind, 0) for w in functions)
    return total


def _elements_per_batch(written: Sequence[WrittenDataset]) -> list[float]:
    """Return elements per batch of each data set, from the last one (which gives one) to the sources."""
    found = [0.0] * len(written)
    found[-1] = 1.0
    for i in range(len(written) - 1, -1, -1):
        per = float(written[i].detail.get("batch_size") or 1) if written[i].family == "Batch" else 1.0
        for source in written[i].inputs:
            if 0 <= source < len(written) and written[i].family != "FlatMap":
                found[source] = found[i] * per
    return found


def _running_name(one: WrittenDataset, tuned: bool, cores: float) -> tuple[str, float | None]:
    """Return the name and parallelism with which TensorFlow runs it; stateless maps become parallel with autotuning."""
    name = one.op.removesuffix("V2").removesuffix("Dataset")
    asked = one.detail.get("parallel")
    stateless = not one.python and not any(op.startswith((*RANDOM_OP_PREFIXES, *STATEFUL_OPS)) for op in one.ops)
    if asked is not None:
        return name if name.startswith("Parallel") else f"Parallel{name}", cores if int(asked) < 0 else float(asked)
    if name == "Map" and tuned and stateless:
        return "ParallelMap", cores
    return name, None


class IteratorReadings(Struct, frozen=True):
    """One iterator: when it was created, and its readings with their times, in ms of the run."""

    begun_ms: float
    read: TimedReadings


def counter_history(pipe: Pipeline, iterators: Sequence[IteratorReadings]) -> CounterHistory | None:
    """Return the nodes' work between readings of its iterators; None without two such stretches."""
    keys = _node_keys(pipe.nodes, pipe.written)
    most = max(MAX_STRETCHES // max(len(iterators), 1), 1)
    columns = [one for each in iterators for one in _reading_stretches(pipe.written, each, most)]
    columns.sort(key=lambda one: one[0])
    if not keys or len(columns) < 2:
        return None
    first = [keys.index(key) == i for i, key in enumerate(keys)]  # one of several equal nodes holds the work of all
    none = (np.nan, np.nan)
    rows = [[c[3].get(key, none) if mine else none for c in columns] for key, mine in zip(keys, first, strict=True)]
    both = np.array(rows, dtype=float)
    start, end, batches = (np.array([c[i] for c in columns], dtype=float) for i in range(3))
    return CounterHistory(start, end, batches, both[:, :, 0], both[:, :, 1])


def _reading_stretches(
    plan: tuple[WrittenDataset, ...], one: IteratorReadings, most: int
) -> Iterator[tuple[float, float, float, dict[NodeKey, tuple[float, float]]]]:
    """Yield start, end, batches, and ms and elements of each node.

    The work since the iterator began includes the first filling of buffers. It is used only if there are no two
    readings with work between them.
    """
    rows = [one.read[i] for i in distinct_values(np.linspace(0, len(one.read) - 1, most + 1).astype(int))]
    found = [(a, b, _work_between(plan, before, after)) for (a, before), (b, after) in itertools.pairwise(rows)]
    if not any(did[1] for _, _, did in found):
        at, fullest = max(one.read, key=lambda row: len(row[1].nodes))
        found = [(one.begun_ms, at, _work_between(plan, None, fullest))]
    yield from ((a, b, batches, did) for a, b, (batches, did) in found if did)


def _work_between(
    plan: tuple[WrittenDataset, ...], before: IteratorCounters | None, after: IteratorCounters
) -> tuple[float, dict[NodeKey, tuple[float, float]]]:
    """Return batches, and total ms and elements of each node.

    TensorFlow drops a node when its data ends, and creates it again for the next pass. Nodes of that name are left
    out.
    """
    nodes_before = before.nodes if before is not None else after.nodes
    changed = {(nodes_before.get(n) or after.nodes[n])["name"] for n in nodes_before.keys() ^ after.nodes.keys()}
    pipe = iterator_counters.pipeline_between(plan, before, after, None, keras=False)
    did: dict[NodeKey, tuple[float, float]] = {}
    for node, key in zip(pipe.nodes, _node_keys(pipe.nodes, plan), strict=True):
        if node.name not in changed:
            ms, elements = did.get(key, (0.0, 0.0))
            did[key] = ms + node.ms * pipe.batches, elements + node.elements * pipe.batches
    return float(pipe.batches), did


def _node_keys(nodes: Sequence[Node], plan: tuple[WrittenDataset, ...]) -> list[NodeKey]:
    number = {id(one): i for i, one in enumerate(plan)}
    return [(n.name, number.get(id(n.written), -1)) for n in nodes]
