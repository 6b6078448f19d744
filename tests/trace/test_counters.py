"""What TensorFlow's counters say of each node, once what is no work of its own is taken off."""

from __future__ import annotations

import pytest

from slowtrain.trace import counters
from slowtrain.trace.counters import Counters
from slowtrain.trace.pipeline import Written


def node(name: str, inputs: list[int], ms: float, elements: float) -> dict[str, object]:
    return {
        "name": name, "inputs": inputs, "processing_ns": ms * 1e6, "elements": elements, "bytes_produced": 0.0,
        "buffered_bytes": 0.0, "parameters": {},
    }  # fmt: skip


def _shuffle_ms(behind: str) -> float:
    """Of a shuffle that counted 60 ms over ten batches of 32, behind a map of that name."""
    nodes = {
        1: node("Root", [2], 0, 10),
        2: node("Batch", [3], 1, 10),
        3: node("Shuffle", [4], 60, 320),
        4: node(behind, [], 200, 320),
    }
    found = counters.measured((), None, Counters(nodes, 1, (), None), None, keras=False)
    return next(n.ms for n in found.nodes if n.name == "Shuffle")


def test_a_shuffle_that_waits_for_a_parallel_map_does_not_count_that_as_its_work() -> None:
    assert _shuffle_ms("Map") == pytest.approx(6.0)
    assert _shuffle_ms("ParallelMapV2") == pytest.approx(32 * counters.SHUFFLED_US / 1e3)


def _reading(made: float, batches: float, ms: float = 0.0, *, ended: bool = False) -> Counters:
    nodes = {1: node("Root", [2], 0, batches), 2: node("BatchV2", [] if ended else [3], 1, batches)}
    if not ended:
        nodes |= {3: node("Shuffle", [4], 0, 0), 4: node("ParallelMapV2", [], ms, made)}
    return Counters(nodes, 1, (), None)


def test_what_a_shuffle_takes_in_at_once_costs_what_it_costs_where_it_was_seen() -> None:
    """TensorFlow forgets what is behind a shuffle once all of an epoch's data lies in its buffer.

    So an iterator is read before its map has begun and when the epoch is over; another one in between, and no more.
    """
    whole = [_reading(0, 0), _reading(0, 10, ended=True)]
    between = [_reading(0, 0), _reading(160, 0, 40.0)]
    plan: tuple[Written, ...] = (Written("BatchDataset", (), None, {"batch_size": 32}),)
    found = counters.watched(plan, [(whole, None), (between, None), (whole, None)], keras=True)
    (mapped,) = (n for n in found.nodes if n.name == "ParallelMapV2")
    assert mapped.elements == pytest.approx(32)
    assert mapped.ms == pytest.approx(32 * 40.0 / 160)
    unseen = counters.watched(plan, [(whole, None), (whole, None)], keras=True)
    assert next(n.ms for n in unseen.nodes if n.name == "ParallelMapV2") == 0
