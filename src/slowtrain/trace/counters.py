"""TensorFlow's own counters of an input pipeline, read from its ``ModelProto``, and joined to what the user wrote.

The counters are totals since an iterator began (tensorflow/core/framework/model.proto): processing
time is summed over threads and excludes a node's inputs. Nothing of TensorFlow is needed to read them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slowtrain.errors import InputError
from slowtrain.trace.pipeline import Node, Pipeline, Written, family
from slowtrain.values import dataclass

# An element: to put it into the buffer and to take another out takes 0.5 to 4 µs where the input is made in the same
# thread, in 14 of clinic/'s recordings; 50 to 180 in the 8 whose shuffle stands behind a parallel map.
SHUFFLED_US = 4.0
MOST_PAIRS = 250_000  # of running and written nodes, held against each other for a tenth of a second at most


def decode(proto: bytes) -> Mapping[int, list[Any]]:
    """One protobuf message as field number -> values (bytes, ints, floats as raw 64 bits). Raises ``InputError``."""
    found: dict[int, list[Any]] = {}
    at, end = 0, len(proto)

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= end or shift > 63:
                raise InputError("the recording holds damaged pipeline counters; record the run again")
            byte = proto[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        key = varint()
        wire = key & 7
        if wire == 0:
            value: Any = varint()
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = proto[at : at + size], at + size
        elif wire == 2:
            size = varint()
            value, at = proto[at : at + size], at + size
        else:
            raise InputError("the recording holds damaged pipeline counters; record the run again")
        if at > end:
            raise InputError("the recording holds damaged pipeline counters; record the run again")
        found.setdefault(key >> 3, []).append(value)
    return found


@dataclass(frozen=True)
class Counters:
    """One reading of an iterator's counters: per node the raw totals, and the consumer's last gaps in µs."""

    nodes: Mapping[int, Mapping[str, Any]]
    output: int
    gaps_us: tuple[int, ...]
    cpu_budget: float | None


def counters(proto: bytes) -> Counters:
    """``ModelProto`` bytes as numbers. Raises ``InputError``."""
    try:
        return _counters(decode(proto))
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        # A field of another kind than the one that belongs there.
        raise InputError("the recording holds damaged pipeline counters; record the run again") from error


def _counters(model: Mapping[int, list[Any]]) -> Counters:
    nodes = {}
    for entry in model.get(1, ()):
        fields = decode(decode(entry).get(2, [b""])[0])
        nodes[int(first(fields, 1, 0))] = {
            "name": bytes(first(fields, 2, b"")).decode("utf-8", "replace"),
            "buffered_bytes": first(fields, 4, 0),
            "bytes_produced": first(fields, 7, 0),
            "elements": first(fields, 8, 0),
            "processing_ns": first(fields, 9, 0),
            "parameters": dict(_parameter(p) for p in fields.get(11, ())),
            "inputs": tuple(packed(fields.get(14, ()))),
        }
    options = decode(first(model, 5, b""))
    budget = first(options, 2, None)
    return Counters(nodes, int(first(model, 2, 0)), tuple(packed(model.get(6, ()))), budget)


def _parameter(raw: bytes) -> tuple[str, tuple[float, bool]]:
    fields = decode(raw)
    value = struct.unpack("<d", first(fields, 3, first(fields, 2, bytes(8))))[0]
    return bytes(first(fields, 1, b"")).decode("utf-8", "replace"), (value, bool(first(fields, 6, 0)))


def first(fields: Mapping[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][0] if fields.get(number) else default


def packed(values: Iterable[Any]) -> list[int]:
    """Repeated integers, packed or not."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        number = shift = 0
        for byte in value:
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                found.append(number)
                number = shift = 0
    return found


def watched(
    plan: tuple[Written, ...], iterators: Iterable[tuple[Sequence[Counters], float | None]], keras: bool
) -> Pipeline:
    """The pipeline out of all its iterators, one an epoch, each with its readings in order and its gap.

    With a cache in it, the epoch that filled the cache does not speak for the others.
    """
    read = [(list(rows), gap) for rows, gap in iterators if rows]
    paces = _paces(rows for rows, _ in read)
    several = [measured(plan, None, settled(rows, plan, paces), gap, keras) for rows, gap in read]
    gaps = sorted(g for rows, _ in read for row in rows for g in row.gaps_us)
    quiet = gaps[len(gaps) // 10] / 1e3 if len(gaps) >= 10 else None
    fed = [p for p in several if p.batches]
    if not fed:
        return several[0] if several else Pipeline(plan, keras=keras)
    total, gap = sum(p.batches for p in fed), _mean_gap(fed)
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


def _mean_gap(several: list[Pipeline]) -> float | None:
    known = [(p.gap_ms, p.batches) for p in several if p.gap_ms is not None]
    weight = sum(batches for _, batches in known)
    return sum(gap * batches for gap, batches in known) / weight if weight else None


def _paces(several: Iterable[Sequence[Counters]]) -> dict[tuple[int, str], float]:
    """By number and name of a node: ns for an element, over all iterators that were read while it worked."""
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


def settled(
    readings: Sequence[Counters], plan: tuple[Written, ...] = (), paces: Mapping[tuple[int, str], float] | None = None
) -> Counters:
    """One reading of all nodes out of the readings of one iterator.

    TensorFlow forgets a node when its data ends, so that the last reading lacks the nodes
    below; each speaks from where it was last seen, carried on to the end by what its consumer
    handed out since. One that was only seen before it had begun (all of an epoch's data goes into a
    shuffle's buffer at once) takes as long for an element as it did in other iterators: ``paces``.
    """
    last, seen = readings[-1], dict[int, int]()
    inputs, most = dict[int, tuple[int, ...]](), dict[int, float]()
    for i, reading in enumerate(readings):
        for number, raw in reading.nodes.items():
            seen[number] = i
            most[number] = max(most.get(number, 0), raw["buffered_bytes"])
            if len(raw["inputs"]) >= len(inputs.get(number, ())):
                inputs[number] = raw["inputs"]
    size = next((int(w.detail["batch_size"]) for w in reversed(plan) if w.detail.get("batch_size")), 1)
    shuffled = next((plan[w.inputs[0]] for w in plan if w.family == "Shuffle" and w.inputs), None)
    length = int((shuffled.detail.get("cardinality") if shuffled else 0) or 0)
    nodes: dict[int, dict[str, Any]] = {}
    below: set[int] = set()  # what feeds a shuffle gives no more in an epoch than there is
    todo = [(last.output, last.output)]
    while todo:
        number, consumer = todo.pop()
        if number not in seen or number in nodes:
            continue
        raw = dict(readings[seen[number]].nodes[number])
        elements = float(raw["elements"])
        if number != consumer and seen[number] < len(readings) - 1:
            then = readings[seen[number]].nodes.get(consumer, {}).get("elements", 0)
            grown = nodes[consumer]["elements"] - then
            kind = family(nodes[consumer]["name"])
            if kind == "Shuffle":
                per = 0.0 if seen[consumer] > seen[number] else 1.0  # outlived: this one had come to its end
            elif then and elements:
                per = elements / then
            else:
                per = float(size) if kind == "Batch" or nodes[consumer]["name"].startswith("MapAndBatch") else 1.0
            final = elements + max(grown, 0) * per
            if kind == "Shuffle" and seen[consumer] > seen[number]:
                final = max(elements, nodes[consumer]["elements"])
            if length > 0 and (kind == "Shuffle" or number in below):
                final = max(min(final, float(length)), elements)
                below.update(inputs[number])
            _carry_on(raw, final, (paces or {}).get((number, raw["name"]), 0.0))
        raw["inputs"], raw["buffered_bytes"] = inputs[number], most[number]
        nodes[number] = raw
        todo.extend((i, number) for i in inputs[number])
    return Counters(nodes, last.output, last.gaps_us, last.cpu_budget)


def _carry_on(raw: dict[str, Any], final: float, pace_ns: float) -> None:
    """To ``final`` elements, as it went until it was last seen; by ``pace_ns`` each, where none was made until then."""
    elements = float(raw["elements"])
    for key in ("processing_ns", "bytes_produced"):
        raw[key] *= final / elements if elements else 1.0
    raw["processing_ns"] += 0.0 if elements else pace_ns * final
    raw["elements"] = final


def measured(
    plan: tuple[Written, ...], before: Counters | None, after: Counters, gap_ms: float | None, keras: bool
) -> Pipeline:
    """The pipeline between two readings of one iterator (from its beginning when ``before`` is None)."""
    order, feeds = _order(after), _tree(after)
    ids = {number: i for i, number in enumerate(order)}
    root = after.nodes.get(after.output, {})
    batches = _since(before, after.output, "elements", root)
    if batches <= 0:
        return Pipeline(plan, keras=keras)
    nodes = []
    for number in order:
        raw = after.nodes[number]
        if number == after.output and raw["name"] == "Root":
            continue
        width = raw["parameters"].get("parallelism")
        size = raw["parameters"].get("buffer_size")
        nodes.append(
            Node(
                ids[number],
                raw["name"],
                tuple(ids[i] for i in feeds[number]),
                _since(before, number, "processing_ns", raw) / batches / 1e6,
                _since(before, number, "elements", raw) / batches,
                width[0] if width else None,
                bool(width and width[1]),
                size[0] if size else None,
                float(raw["buffered_bytes"]),
                _since(before, number, "bytes_produced", raw) / batches,
            )
        )
    return Pipeline(plan, _match(_without_waiting(nodes), plan), int(batches), gap_ms, after.cpu_budget, keras)


def _without_waiting(nodes: list[Node]) -> list[Node]:
    """A shuffle that waits for what threads make ahead of it counts that as its own time; its work is to hand on."""
    by_id = {n.id: n for n in nodes}
    for node in nodes:
        if node.family == "Shuffle" and any(by_id[i].asynchronous for i in node.inputs):
            by_id[node.id] = replace(node, ms=min(node.ms, node.elements * SHUFFLED_US / 1e3))
    return list(by_id.values())


def _since(before: Counters | None, number: int, key: str, raw: Mapping[str, Any]) -> float:
    earlier = before.nodes.get(number, {}).get(key, 0) if before else 0
    return float(max(raw.get(key, 0) - earlier, 0))


def _tree(reading: Counters) -> dict[int, list[int]]:
    """Node -> its inputs. Each node feeds one other, as in TensorFlow."""
    found: dict[int, list[int]] = {}
    todo, seen = [reading.output], {reading.output}
    while todo:
        number = todo.pop()
        found[number] = []
        for one in reading.nodes[number]["inputs"] if number in reading.nodes else ():
            if one in reading.nodes and one not in seen:
                seen.add(one)
                found[number].append(one)
                todo.append(one)
    return found


def _order(reading: Counters) -> list[int]:
    """Node numbers, inputs before consumers."""
    order: list[int] = []
    stack: list[tuple[int, bool]] = [(reading.output, False)]
    seen: set[int] = set()
    while stack:
        number, done = stack.pop()
        if done:
            order.append(number)
        elif number in reading.nodes and number not in seen:
            seen.add(number)
            stack.append((number, True))
            stack.extend((i, False) for i in reversed(reading.nodes[number]["inputs"]))
    return order


def _match(nodes: list[Node], plan: tuple[Written, ...]) -> tuple[Node, ...]:
    """Gives each running node the written one that it came from: both in order from the source, by family.

    As many as can be: the nodes of a data set that is made for an element stand among the others, and are not written
    where they seem to be. Of equal choices the first. A map that TensorFlow made one with its batch stands for both.
    """
    running = [(n, family) for n, node in enumerate(nodes) for family in _families(node)]
    pairs = in_order([family for _, family in running], [w.family for w in plan])
    found = {n: plan[j] for (n, family), j in ((running[i], j) for i, j in pairs) if family == nodes[n].family}
    return tuple(replace(node, written=found.get(n)) for n, node in enumerate(nodes))


def _families(node: Node) -> tuple[str, ...]:
    return ("Map", "Batch") if node.name.startswith("MapAndBatch") else (node.family,)


def in_order(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """The most pairs of equal ones whose order is that of both lists: their longest common subsequence."""
    first, last = 0, 0
    most = min(len(ours), len(theirs))
    while first < most and ours[first] == theirs[first]:
        first += 1
    while last < most - first and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    pairs = [(i, i) for i in range(first)]
    rows, columns = len(ours) - first - last, len(theirs) - first - last
    if rows * columns <= MOST_PAIRS:
        longest = [[0] * (columns + 1) for _ in range(rows + 1)]
        for i in reversed(range(rows)):
            for j in reversed(range(columns)):
                same = ours[first + i] == theirs[first + j]
                longest[i][j] = longest[i + 1][j + 1] + 1 if same else max(longest[i + 1][j], longest[i][j + 1])
        i = j = 0
        while i < rows and j < columns:
            if ours[first + i] == theirs[first + j]:
                pairs.append((first + i, first + j))
                i, j = i + 1, j + 1
            elif longest[i + 1][j] >= longest[i][j + 1]:
                i += 1
            else:
                j += 1
    return pairs + [(len(ours) - n, len(theirs) - n) for n in range(last, 0, -1)]
