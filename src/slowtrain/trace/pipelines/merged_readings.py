"""Merges many readings of a pipeline's counters, because TensorFlow drops nodes whose data have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset, node_family, repeats_input
from slowtrain.trace.pipelines.iterator_counters import IteratorCounters, pipeline_between


def merge_iterators(
    plan: tuple[WrittenDataset, ...], iterators: Iterable[tuple[Sequence[IteratorCounters], float | None]], keras: bool
) -> Pipeline:
    """Return the pipeline from all its iterators (one per epoch), each with its readings in order and its gap.

    If the pipeline has a cache, the epoch that filled it is not used for the others.
    """
    read = [(list(rows), gap) for rows, gap in iterators if rows]
    paces = _ns_per_element(rows for rows, _ in read)
    several = [pipeline_between(plan, None, merge_readings(rows, plan, paces), gap, keras) for rows, gap in read]
    gaps = sorted(g for rows, _ in read for row in rows for g in row.gaps_us)
    quiet = gaps[len(gaps) // 10] / 1e3 if len(gaps) >= 10 else None
    fed = [p for p in several if p.batches]
    if not fed:
        return several[0] if several else Pipeline(plan, keras=keras)
    total, gap = sum(p.batches for p in fed), _mean_gap_ms(fed)
    speaking = fed[1:] if len(fed) > 1 and any(w.family == "Cache" for w in plan) else fed
    most = max(len(p.nodes) for p in speaking)
    whole = [p for p in speaking if len(p.nodes) == most]
    longest = max(whole, key=lambda p: p.batches)
    alike = [p for p in whole if [n.name for n in p.nodes] == [n.name for n in longest.nodes]]
    weight = sum(p.batches for p in alike)
    nodes = tuple(
        replace(
            node,
            ms=sum(p.nodes[i].ms * p.batches for p in alike) / weight,
            elements=sum(p.nodes[i].elements * p.batches for p in alike) / weight,
            bytes_produced=sum(p.nodes[i].bytes_produced * p.batches for p in alike) / weight,
            buffered_bytes=max(p.nodes[i].buffered_bytes for p in alike),
        )
        for i, node in enumerate(longest.nodes)
    )
    return replace(longest, nodes=nodes, batches=total, gap_ms=gap, epochs=len(fed), quiet_ms=quiet)


def _mean_gap_ms(several: list[Pipeline]) -> float | None:
    known = [(p.gap_ms, p.batches) for p in several if p.gap_ms is not None]
    weight = sum(batches for _, batches in known)
    return sum(gap * batches for gap, batches in known) / weight if weight else None


def _ns_per_element(several: Iterable[Sequence[IteratorCounters]]) -> dict[tuple[int, str], float]:
    """Return ns per element by number and name of a node, over all iterators that were read while it worked."""
    spent: dict[tuple[int, str], list[float]] = {}
    for readings in several:
        last: dict[tuple[int, str], Mapping[str, Any]] = {}
        for reading in readings:
            last |= {(number, raw["name"]): raw for number, raw in reading.nodes.items() if raw["elements"]}
        for key, raw in last.items():
            total = spent.setdefault(key, [0.0, 0.0])
            total[0] += raw["processing_ns"]
            total[1] += raw["elements"]
    return {key: ns / elements for key, (ns, elements) in spent.items()}


def merge_readings(
    readings: Sequence[IteratorCounters],
    plan: tuple[WrittenDataset, ...] = (),
    paces: Mapping[tuple[int, str], float] | None = None,
) -> IteratorCounters:
    """Merge the readings of one iterator into one reading of all nodes.

    TensorFlow drops a node when its data ends, so that the last reading lacks the nodes below. Such a node counts
    from where it was last read, extrapolated to the end by what its consumer delivered since. A node that was only
    read before it had started (a whole epoch's data goes into a shuffle's buffer at once) gets the time per element
    of other iterators: ``paces``.
    """
    last = readings[-1]
    return IteratorCounters(
        _merged_nodes(readings, last.output, plan, paces or {}), last.output, last.gaps_us, last.cpu_budget
    )


def _merged_nodes(
    readings: Sequence[IteratorCounters],
    root: int,
    plan: tuple[WrittenDataset, ...],
    paces: Mapping[tuple[int, str], float],
    inside: frozenset[int] = frozenset(),
) -> dict[int, dict[str, Any]]:
    """Return ``root`` and its inputs as of the last of ``readings``.

    ``inside``: repeats that it feeds. A node that feeds itself, in a damaged recording, ends there.
    """
    seen, inputs, most = dict[int, int](), dict[int, tuple[int, ...]](), dict[int, float]()
    for i, reading in enumerate(readings):
        for number, raw in reading.nodes.items():
            seen[number] = i
            most[number] = max(most.get(number, 0), raw["buffered_bytes"])
            if len(raw["inputs"]) >= len(inputs.get(number, ())):
                inputs[number] = raw["inputs"]
    shuffled = next((plan[w.inputs[0]] for w in plan if w.family == "Shuffle" and w.inputs), None)
    length = int((shuffled.detail.get("cardinality") if shuffled else 0) or 0)
    nodes: dict[int, dict[str, Any]] = {}
    below: set[int] = set()  # inputs of a shuffle deliver at most one data set per epoch
    todo = [(root, root)]
    while todo:
        number, consumer = todo.pop()
        if number not in seen or number in nodes:
            continue
        raw = dict(readings[seen[number]].nodes[number])
        elements = float(raw["elements"])
        if number != consumer and seen[number] < len(readings) - 1:
            then = readings[seen[number]].nodes.get(consumer, {}).get("elements", 0)
            final = _final_elements(elements, then, nodes[consumer], seen[consumer] > seen[number], plan)
            if length > 0 and (node_family(nodes[consumer]["name"]) == "Shuffle" or number in below):
                final = max(min(final, float(length)), elements)
                below.update(inputs[number])
            _extrapolate_counters(raw, final, paces.get((number, raw["name"]), 0.0))
        raw["inputs"], raw["buffered_bytes"] = inputs[number], most[number]
        nodes[number] = raw
        again_and_again = repeats_input(raw["name"]) and number not in inside
        if again_and_again and (whole := _fullest_pass(readings, number, plan)):
            one, until = whole
            again = _merged_nodes(readings[: until + 1], one, plan, paces, inside | {number})
            for fed in again.values():
                _extrapolate_counters(
                    fed, fed["elements"] * raw["elements"] / readings[until].nodes[one]["elements"], 0.0
                )
            raw["inputs"] = (one,)
            nodes |= again
        todo.extend((i, number) for i in raw["inputs"])
    return nodes


def _final_elements(
    elements: float, then: float, consumer: Mapping[str, Any], outlived: bool, plan: tuple[WrittenDataset, ...]
) -> float:
    """Return the final elements of a dropped node that had given ``elements`` when its consumer had given ``then``.

    ``outlived``: its consumer was read after it.
    """
    kind, given = node_family(consumer["name"]), float(consumer["elements"])
    grown = max(given - then, 0.0)
    if kind == "Shuffle":
        return max(elements, given) if outlived else elements + grown
    if then and elements:
        return elements + grown * elements / then
    size = next((int(w.detail["batch_size"]) for w in reversed(plan) if w.detail.get("batch_size")), 1)
    return elements + grown * (size if kind == "Batch" or consumer["name"].startswith("MapAndBatch") else 1)


def _fullest_pass(
    readings: Sequence[IteratorCounters], repeat: int, plan: tuple[WrittenDataset, ...]
) -> tuple[int, int] | None:
    """Return the input of a repeat in its fullest recorded pass, and its last reading; None with only one pass.

    TensorFlow creates a new node, with all its inputs, for every pass. If there is a cache, the pass that filled it
    is not used for the others.
    """
    passes: dict[int, tuple[float, int]] = {}
    for i, reading in enumerate(readings):
        for number in reading.nodes.get(repeat, {}).get("inputs", ()):
            if number in reading.nodes:
                passes[number] = float(reading.nodes[number]["elements"]), i
    told = list(passes)[1:] if any(w.family == "Cache" for w in plan) else list(passes)
    if len(passes) < 2 or not told:
        return None
    fullest = max(told, key=lambda number: passes[number][0])
    return (fullest, passes[fullest][1]) if passes[fullest][0] else None


def _extrapolate_counters(raw: dict[str, Any], final: float, pace_ns: float) -> None:
    """Extrapolate to ``final`` elements at the node's own pace; by ``pace_ns`` each if it made none until then."""
    elements = float(raw["elements"])
    for key in ("processing_ns", "bytes_produced"):
        raw[key] *= final / elements if elements else 1.0
    raw["processing_ns"] += 0.0 if elements else pace_ns * final
    raw["elements"] = final
