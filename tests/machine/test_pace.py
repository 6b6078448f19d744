"""How fast a core is, and what of a foretold step goes by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.process import launch
from slowtrain.machine.samples import core_clock
from slowtrain.trace.signals.host import host_work

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


def test_the_shortest_of_many_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter(
        [
            9 * core_clock.REFERENCE_NS,
            0.5 * core_clock.REFERENCE_NS,
            *([3 * core_clock.REFERENCE_NS] * core_clock.PACE_REPEATS),
        ]
    )
    monkeypatch.setattr(core_clock, "_time_once_ns", lambda: next(took))
    assert core_clock.measure_core_pace() == pytest.approx(2.0)


def test_a_run_notes_it_as_it_begins(tmp_path: Path) -> None:
    launch.note_start(tmp_path, ["train.py"], 0)
    assert 0.05 < noted(tmp_path) < 20, "of any core that TensorFlow runs on"


@pytest.mark.parametrize(("end", "kept"), [(0.7, 1.5), (1.6, 1.6)])
def test_a_moment_in_which_a_neighbour_has_half_of_the_core_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float, kept: float
) -> None:
    monkeypatch.setattr(core_clock, "measure_core_pace", lambda: 1.5)
    about = launch.note_start(tmp_path, ["train.py"], 0)
    monkeypatch.setattr(core_clock, "measure_core_pace", lambda: end)
    launch.note_end(tmp_path, about, 0, 10**9)
    assert noted(tmp_path) == kept


def noted(folder: Path) -> float:
    return float(json.loads((folder / launch.LAUNCH_FILE).read_text())["pace"])


@pytest.mark.parametrize(
    ("told", "taken"), [(2.0, 2.0), (0.5, 0.5), (None, 1.0), (1e9, host_work.MAX_CORE_PACE), (-1, 1.0), ("fast", 1.0)]
)
def test_calls_and_ops_of_a_graph_take_less_on_a_faster_core(told: Any, taken: float) -> None:
    trace = parse_drawing("step 11\n@fact launch=" + json.dumps({"pace": told}))
    assert host_work.graph_step_ms(trace, 1000, 3.0) == pytest.approx(
        3.0 + (host_work.GRAPH_CALL_MS + 1000 * host_work.GRAPH_OP_MS) / taken
    )
