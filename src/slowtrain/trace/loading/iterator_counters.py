"""TensorFlow's own counters of an input pipeline, read from its ``ModelProto``, merged, and joined to the written one.

The counters are totals since an iterator began (tensorflow/core/framework/model.proto). Processing time is summed
over threads and excludes a node's inputs. TensorFlow is not needed to read them. It drops nodes whose data have ended,
so that many readings are merged.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.input_pipeline import Node, Pipeline, WrittenDataset, node_family, repeats_input
from slowtrain.errors import InputError
from slowtrain.profile.format.wire_format import FIXED64, LEN, VARINT, ProtoFile

# Per element. Putting one into the buffer and taking another out takes 0.5 to 4 µs if the input is made in the same
# thread (14 of clinic/'s recordings), and 50 to 180 µs in the 8 whose shuffle follows a parallel map.
MAX_SHUFFLE_US = 4.0
MAX_COMPARED_PAIRS = 250_000  # pairs of running and written nodes; comparing them takes a tenth of a second at most


def decode_message(proto: bytes) -> Mapping[int, list[Any]]:
    """Decode one protobuf message to field number -> values (bytes, ints, fixed-size numbers as bytes).

    Raises ``InputError``.
    """
    found: dict[int, list[Any]] = {}
    read_field, pos, end = ProtoFile(proto, "counters").field, 0, len(proto)
    while pos < end:
        tag, value, stop = read_field(pos, end)
        wire = tag & 7
        if wire == LEN:
            found.setdefault(tag >> 3, []).append(proto[value:stop])
        elif wire == VARINT:
            found.setdefault(tag >> 3, []).append(value)
        else:
            found.setdefault(tag >> 3, []).append(proto[stop - (8 if wire == FIXED64 else 4) : stop])
        pos = stop
    return found


class IteratorCounters(Struct, frozen=True):
    """One reading of an iterator's counters: raw totals of each node, and the consumer's last gaps in µs."""

    nodes: Mapping[int, Mapping[str, Any]]
    output: int
    gaps_us: tuple[int, ...]
    cpu_budget: float | None


def read_counters(proto: bytes) -> IteratorCounters:
    """Parse the bytes of a ``ModelProto``. Raises ``InputError``."""
    try:
        return _parse_counters(decode_message(proto))
    except (InputError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        # The bytes are no message, or a field has an unexpected type.
        raise InputError("the recording holds damaged pipeline counters; record the run again") from error


def _parse_counters(model: Mapping[int, list[Any]]) -> IteratorCounters:
    nodes = {}
    for entry in model.get(1, ()):
        fields = decode_message(decode_message(entry).get(2, [b""])[0])
        nodes[int(first_value(fields, 1, 0))] = {
            "name": bytes(first_value(fields, 2, b"")).decode("utf-8", "replace"),
            "buffered_bytes": first_value(fields, 4, 0),
            "bytes_produced": first_value(fields, 7, 0),
            "elements": first_value(fields, 8, 0),
            "processing_ns": first_value(fields, 9, 0),
            "parameters": dict(_parse_parameter(p) for p in fields.get(11, ())),
            "inputs": tuple(unpack_integers(fields.get(14, ()))),
        }
    options = decode_message(first_value(model, 5, b""))
    budget = first_value(options, 2, None)
    return IteratorCounters(nodes, int(first_value(model, 2, 0)), tuple(unpack_integers(model.get(6, ()))), budget)


@functools.lru_cache(maxsize=256)  # the same in most readings
def _parse_parameter(raw: bytes) -> tuple[str, tuple[float, bool]]:
    fields = decode_message(raw)
    value = struct.unpack("<d", first_value(fields, 3, first_value(fields, 2, bytes(8))))[0]
    return bytes(first_value(fields, 1, b"")).decode("utf-8", "replace"), (value, bool(first_value(fields, 6, 0)))


def first_value(fields: Mapping[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][0] if fields.get(number) else default


def unpack_integers(values: Iterable[Any]) -> list[int]:
    """Return repeated integers, packed or not. Raises ``InputError``."""
    each = ([v] if isinstance(v, int) else ProtoFile(v, "counters").packed_numbers(0, len(v)) for v in values)
    return [number for several in each for number in several]


def pipeline_between(
    plan: tuple[WrittenDataset, ...],
    before: IteratorCounters | None,
    after: IteratorCounters,
    gap_ms: float | None,
    keras: bool,
) -> Pipeline:
    """Return the pipeline between two readings of one iterator (from its start if ``before`` is None)."""
    order, feeds = _inputs_first(after), _input_tree(after)
    ids = {number: i for i, number in enumerate(order)}
    root = after.nodes.get(after.output, {})
    batches = _gain_since(before, after.output, "elements", root)
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
                _gain_since(before, number, "processing_ns", raw) / batches / 1e6,
                _gain_since(before, number, "elements", raw) / batches,
                width[0] if width else None,
                bool(width and width[1]),
                size[0] if size else None,
                float(raw["buffered_bytes"]),
                _gain_since(before, number, "bytes_produced", raw) / batches,
            )
        )
    return Pipeline(
        plan, _match_written(_without_shuffle_waits(nodes), plan), int(batches), gap_ms, after.cpu_budget, keras
    )


def _without_shuffle_waits(nodes: list[Node]) -> list[Node]:
    """Limit a shuffle's time to handing on elements if its input is asynchronous.

    It counts the wait for its input as its own time.
    """
    by_id = {n.id: n for n in nodes}
    for node in nodes:
        if node.family == "Shuffle" and any(by_id[i].asynchronous for i in node.inputs):
            by_id[node.id] = replace(node, ms=min(node.ms, node.elements * MAX_SHUFFLE_US / 1e3))
    return list(by_id.values())


def _gain_since(before: IteratorCounters | None, number: int, key: str, raw: Mapping[str, Any]) -> float:
    earlier = before.nodes.get(number, {}).get(key, 0) if before else 0
    return float(max(raw.get(key, 0) - earlier, 0))


def _input_tree(reading: IteratorCounters) -> dict[int, list[int]]:
    """Return each node's inputs. Each node feeds one other, as in TensorFlow."""
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


def _inputs_first(reading: IteratorCounters) -> list[int]:
    """Return node numbers, inputs before consumers."""
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


def _match_written(nodes: list[Node], plan: tuple[WrittenDataset, ...]) -> tuple[Node, ...]:
    """Give each running node the written one that it came from, both in order from the source, by family.

    The largest number of pairs is chosen, because nodes of data sets that are made per element appear among the
    others and are written elsewhere. Of equal choices the first is used. A map that TensorFlow fused with its batch
    stands for both.
    """
    fused = "Map", "Batch"
    families = [fused if node.name.startswith("MapAndBatch") else (node.family,) for node in nodes]
    running = [(n, family) for n, several in enumerate(families) for family in several]
    pairs = longest_common_pairs([family for _, family in running], [w.family for w in plan])
    found = {n: plan[j] for (n, family), j in ((running[i], j) for i, j in pairs) if family == nodes[n].family}
    return tuple(replace(node, written=found.get(n)) for n, node in enumerate(nodes))


def longest_common_pairs(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Return the most pairs of equal items in the order of both lists: their longest common subsequence."""
    first, last = 0, 0
    most = min(len(ours), len(theirs))
    while first < most and ours[first] == theirs[first]:
        first += 1
    while last < most - first and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    pairs = [(i, i) for i in range(first)]
    rows, columns = len(ours) - first - last, len(theirs) - first - last
    if rows * columns <= MAX_COMPARED_PAIRS:
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
    known = [(p.gap_ms, p.batches) for p in fed if p.gap_ms is not None]
    weight = sum(batches for _, batches in known)
    gap = sum(ms * batches for ms, batches in known) / weight if known else None
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
    return replace(
        longest, nodes=nodes, batches=sum(p.batches for p in fed), gap_ms=gap, epochs=len(fed), quiet_ms=quiet
    )


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
    readings: Sequence[IteratorCounters], plan: tuple[WrittenDataset, ...], paces: Mapping[tuple[int, str], float]
) -> IteratorCounters:
    """Merge the readings of one iterator into one reading of all nodes.

    TensorFlow drops a node when its data ends, so that the last reading lacks the nodes below. Such a node counts
    from where it was last read, extrapolated to the end by what its consumer delivered since. A node that was only
    read before it had started (a whole epoch's data goes into a shuffle's buffer at once) gets the time per element
    of other iterators: ``paces``.
    """
    last = readings[-1]
    return replace(last, nodes=_merged_nodes(readings, last.output, plan, paces))


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
    kind, passed_on = node_family(consumer["name"]), float(consumer["elements"])
    grown = max(passed_on - then, 0.0)
    if kind == "Shuffle":
        return max(elements, passed_on) if outlived else elements + grown
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
    usable_passes = list(passes)[1:] if any(w.family == "Cache" for w in plan) else list(passes)
    if len(passes) < 2 or not usable_passes:
        return None
    fullest = max(usable_passes, key=lambda number: passes[number][0])
    return (fullest, passes[fullest][1]) if passes[fullest][0] else None


def _extrapolate_counters(raw: dict[str, Any], final: float, pace_ns: float) -> None:
    """Extrapolate to ``final`` elements at the node's own pace; by ``pace_ns`` each if it made none until then."""
    elements = float(raw["elements"])
    for key in ("processing_ns", "bytes_produced"):
        raw[key] *= final / elements if elements else 1.0
    raw["processing_ns"] += 0.0 if elements else pace_ns * final
    raw["elements"] = final
