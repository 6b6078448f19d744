"""What TensorFlow's counters say of each node, once what is no work of its own is taken off."""

from __future__ import annotations

import pytest

from slowtrain.trace import counters
from slowtrain.trace.counters import Counters


def _shuffle_ms(behind: str) -> float:
    """Of a shuffle that counted 60 ms over ten batches of 32, behind a map of that name."""

    def node(name: str, inputs: list[int], ms: float, elements: float) -> dict[str, object]:
        return {
            "name": name, "inputs": inputs, "processing_ns": ms * 1e6, "elements": elements, "bytes_produced": 0.0,
            "buffered_bytes": 0.0, "parameters": {},
        }  # fmt: skip

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
