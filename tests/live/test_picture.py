"""A frame as a screen, a foot, a line and a document: it fits, and it is harmless."""

from __future__ import annotations

import json
import re

import pytest
from rich.cells import cell_len

from slowtrain.model import Part, Place
from slowtrain.report import frames, live
from slowtrain.report.terminal import Terminal
from slowtrain.shared.live_frame import Alert, Curve, FoundCause, Frame, Gpu, Machine, Progress, RunState, StepTime

BUSY = Frame(
    folder="runs/a", command="train.py --data /a/very/long/path/to/somewhere/else --name 水水水水水水水水水水水水",
    state=RunState.RUNNING, run_ms=7_425_000.0, source="fit",
    progress=Progress(123_456, 3, 10, 2_345, 50_000, 5_400_000.0, {"loss": 0.123456, "val_loss": float("nan")}),
    step=StepTime(
        42.1, 40.2, 61.0, 761.5, Curve(tuple(40.0 + i % 7 for i in range(60)), 0, 7_425_000.0),
        Curve((*[None] * 10, *[41.0] * 49, 400.0), 7_365_000.0, 7_425_000.0),
    ),
    window_ms=30_000.0,
    parts=(Part("input", 30.0, 0.71), Part("device", 11.0, 0.26), Part("python", 1.1, 0.03)),
    machine=Machine(
        3e9, 12e9, 16e9, Curve(tuple(float(i) for i in range(60))), 3.4, 4.0,
        (Gpu("NVIDIA A100", 0.31, 30e9, 80e9, 61.0, 250.0),), 5e9, 100e9, 1e6,
    ),
    doing=Place("/home/me/train.py", 31), doing_what="read",
    alerts=(
        Alert("stall", "no step has ended for 42 s \x1b[2Jevil " + "words " * 60, 7_400_000.0, True, {"x": 1.0},
              (Place("/home/me/train.py", 31, "data = np.load(file)"),)),
        Alert("input-bound", "steps wait for input 71 % of their time", 7_000_000.0),
        Alert("gpu-idle", "GPU 0 had work 31 % of the time", 100.0, over_ms=5_000.0),
    ),
    found=(FoundCause("input/sequential-map", "A map", 2.1, "step"),),
    examined_ms=7_400_000.0,
)  # fmt: skip
EMPTY = Frame("runs/b", "", RunState.STARTING, 0.0)
FRAMES = {"busy": BUSY, "empty": EMPTY}


def bare(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10), (24, 3), (80, 1)])
def test_the_screen_fits(name: str, colour: bool, unicode: bool, width: int, height: int) -> None:
    lines = live.screen_lines(FRAMES[name], width=width, height=height, colour=colour, unicode=unicode, hint="q leaves")
    assert 1 <= len(lines) <= height
    for line in lines:
        assert cell_len(bare(line)) <= width, line
        assert "\x1b" not in bare(line)
        assert colour or "\x1b" not in line
        assert unicode or line.isascii()


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("height", [8, 5])
def test_the_foot_has_as_many_lines_as_it_was_given(name: str, height: int) -> None:
    lines = live.foot_lines(FRAMES[name], width=80, height=height, colour=False, unicode=True)
    assert len(lines) == height
    assert max(cell_len(line) for line in lines) <= 80


def test_what_matters_is_there_at_80_columns() -> None:
    text = "\n".join(live.screen_lines(BUSY, width=80, height=24, colour=False, unicode=True))
    expected = (
        "running · 2 h 3 min", "epoch 3 of 10", "about 1 h 30 min left", "42.1 ms now", "40.2 ms over the run", "input",
        "71%", "2.79 GiB", "GPU 0", "train.py:31", "stall", "no step has ended for 42 s",
    )  # fmt: skip
    for said in expected:
        assert said in text, text


def test_what_was_not_measured_is_said() -> None:
    text = "\n".join(live.screen_lines(EMPTY, width=80, height=24, colour=False, unicode=True))
    assert "no step yet" in text
    assert "not measured" in text
    assert "not examined for causes yet" in text


def test_a_spike_is_never_smoothed_away() -> None:
    paper = Terminal(80, False, True)
    drawn = live.curve_blocks(paper, [1.0] * 59 + [50.0], 20)
    assert drawn[-1] == "█"
    assert set(drawn[:-1]) == {"▁"}
    assert live.curve_blocks(paper, [None, 1.0], 20)[0] == " "
    assert live.curve_blocks(paper, [], 20) == ""


def test_one_line() -> None:
    line = frames.status_line(BUSY)
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.startswith("2 h 3 min, 123456 steps, epoch 3/10, 42.1 ms a step, input 71%")
    assert line.endswith("alerts: stall input-bound")
    assert frames.status_line(EMPTY) == "0 s, starting, no steps yet"


def test_the_document() -> None:
    for frame in FRAMES.values():
        found = json.loads(frames.frame_json(frame))
        assert found["schema"] == "slowtrain.frame/1"
        assert found["state"] == str(frame.state)
    assert json.loads(frames.frame_json(BUSY))["progress"]["logs"]["val_loss"] == "nan"
    assert json.loads(frames.frame_json(EMPTY))["step"]["now_ms"] is None


@pytest.mark.parametrize(
    ("ms", "said"),
    [(1.0, "5 s"), (61_000.0, "60 s"), (600_000.0, "10 min"), (9_000_000.0, "2 h 30 min"), (3e8, "3.5 days")],
)
def test_time_left_is_no_more_exact_than_it_can_be(ms: float, said: str) -> None:
    assert frames.time_left(ms) == said
