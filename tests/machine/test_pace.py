"""How fast a core is, and what of a foretold step goes by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture import launch
from slowtrain.machine import pace
from slowtrain.trace import host
from slowtrain.trace.drawn import drawn


def test_the_shortest_of_many_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([9 * pace.REFERENCE_NS, 0.5 * pace.REFERENCE_NS, *([3 * pace.REFERENCE_NS] * pace.TIMES)])
    monkeypatch.setattr(pace, "_once", lambda: next(took))
    assert pace.measured() == pytest.approx(2.0)


def test_a_run_notes_it_as_it_begins(tmp_path: Path) -> None:
    launch.begun(tmp_path, ["train.py"], 0)
    assert 0.05 < noted(tmp_path) < 20, "of any core that TensorFlow runs on"


@pytest.mark.parametrize(("end", "kept"), [(0.7, 1.5), (1.6, 1.6)])
def test_a_moment_in_which_a_neighbour_has_half_of_the_core_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float, kept: float
) -> None:
    monkeypatch.setattr(pace, "measured", lambda: 1.5)
    about = launch.begun(tmp_path, ["train.py"], 0)
    monkeypatch.setattr(pace, "measured", lambda: end)
    launch.ended(tmp_path, about, 0, 10**9)
    assert noted(tmp_path) == kept


def noted(folder: Path) -> float:
    return float(json.loads((folder / launch.LAUNCH_FILE).read_text())["pace"])


@pytest.mark.parametrize(
    ("told", "taken"), [(2.0, 2.0), (0.5, 0.5), (None, 1.0), (1e9, host.FASTEST), (-1, 1.0), ("fast", 1.0)]
)
def test_calls_and_ops_of_a_graph_take_less_on_a_faster_core(told: Any, taken: float) -> None:
    trace = drawn("step 11\n@fact launch=" + json.dumps({"pace": told}))
    assert host.graph_ms(trace, 1000, 3.0) == pytest.approx(3.0 + (host.CALL_MS + 1000 * host.OP_MS) / taken)
