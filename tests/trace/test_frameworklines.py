"""Lines of a framework that an old recording gives for the user's are not shown, wherever it was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace import frameworklines, recording

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
    assert frameworklines.is_framework(file) is framework


def test_rows_that_are_only_lines_go_and_others_lose_theirs() -> None:
    graph = {
        "ops": 9,
        "lines": [[OPS, 1221, 900, 800], [MINE, 3, 9, 1]],
        "double": [[OPS, 1221]],
        "over": [["a/Mul", OPS, 1221], ["b/Mul", MINE, 4]],
        "loops": [["while", OPS, 1221, 40, None]],
    }
    found = frameworklines.without({"nth": 1, "graph": graph})
    assert found["graph"] == {
        "ops": 9,
        "lines": [[MINE, 3, 9, 1]],
        "double": [],
        "over": [["a/Mul", None, 0], ["b/Mul", MINE, 4]],
        "loops": [["while", None, 0, 40, None]],
    }
    assert frameworklines.without({"nth": 1, "graph": None}) == {"nth": 1, "graph": None}


@on_gpu
@pytest.mark.parametrize("name", ["g_big_embedding", "handmade_conv", "g_transformer_mixed"])
def test_real_recordings_name_no_line_of_tensorflow(name: str) -> None:
    graphs = [str(e.data["graph"]) for e in recording.read(RECORDED / name).events if e.data.get("graph")]
    assert graphs
    assert not any("ops.py" in graph for graph in graphs)
