"""Lines of a framework that an old recording gives for the user's are not shown, wherever it was installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.recording import reader

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
on_gpu = pytest.mark.skipif(not RECORDED.exists(), reason="../shared/traces/tf-h200 is absent")
OPS = "/tmp/site/tensorflow/python/framework/ops.py"
MINE = "/home/me/train.py"


@pytest.mark.parametrize(
    ("file", "framework"),
    [
        (OPS, True),
        ("/opt/packages/keras/src/ops/numpy.py", True),
        ("/x/tf_keras/src/engine/training.py", True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True),
        ("C:\\site\\tensorflow\\python\\framework\\ops.py", True),
        ("/home/me/keras/train.py", False),
        ("/home/me/tensorflow/models/train.py", False),
        (MINE, False),
        (None, False),
    ],
)
def test_what_is_a_frameworks(file: str | None, framework: bool) -> None:
    assert reader.is_framework_file(file) is framework


def test_rows_that_are_only_lines_go_and_others_lose_theirs() -> None:
    graph = {
        "ops": 9,
        "lines": [[OPS, 1221, 900, 800], [MINE, 3, 9, 1]],
        "double": [[OPS, 1221]],
        "over": [["a/Mul", OPS, 1221], ["b/Mul", MINE, 4]],
        "loops": [["while", OPS, 1221, 40, None]],
    }
    found = reader.without_framework_lines({"nth": 1, "graph": graph})
    assert found["graph"] == {
        "ops": 9,
        "lines_lost": [900, 800],
        "lines": [[MINE, 3, 9, 1]],
        "double": [],
        "over": [["a/Mul", None, 0], ["b/Mul", MINE, 4]],
        "loops": [["while", None, 0, 40, None]],
    }
    assert reader.without_framework_lines({"nth": 1, "graph": None}) == {"nth": 1, "graph": None}


def test_ops_without_a_line_are_of_the_lines_sampled_while_they_were_traced() -> None:
    at = [{"site": [MINE, line]} for line in (15, 16, 22)]
    names = [Name("stack", "f", detail) for detail in at]
    start = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 90.0])
    none = np.zeros(6, dtype=np.int64)
    samples = Spans(start, start, np.array([0, 0, 0, 1, 2, 1]), none, none)
    graph = {"lines": [[OPS, 1221, 900, 800]]}
    data = reader.without_framework_lines({"graph": graph, "trace_ns": 60_000_000, "site": [MINE, 22]})
    found = reader.with_sampled_lines(Event("trace", "step", 0.0, 100.0, data), names, samples)
    assert found.data["graph"]["lines"] == [[MINE, 15, 675, 600], [MINE, 16, 225, 200]]
    told = Event("trace", "step", 0.0, 100.0, {"graph": {"lines": []}, "trace_ns": 60_000_000})
    assert reader.with_sampled_lines(told, names, samples) is told


@on_gpu
def test_the_loop_over_pixels_in_a_real_recording_has_its_own_lines() -> None:
    graphs = [e.data["graph"] for e in reader.read_recording(RECORDED / "handmade_conv").events if e.data.get("graph")]
    assert {row[1] for row in graphs[0]["lines"][:3]} <= {13, 14, 15, 16}


@on_gpu
@pytest.mark.parametrize("name", ["g_big_embedding", "handmade_conv", "g_transformer_mixed"])
def test_real_recordings_name_no_line_of_tensorflow(name: str) -> None:
    graphs = [str(e.data["graph"]) for e in reader.read_recording(RECORDED / name).events if e.data.get("graph")]
    assert graphs
    assert not any("ops.py" in graph for graph in graphs)
