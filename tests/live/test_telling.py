"""Alerts to functions and commands: each once, never fatal, without a shell."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from slowtrain.cli import _live_view
from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.report import frames
from slowtrain.shared.live_frame import Alert, Frame, RunState
from slowtrain.watch import frame_outputs, frame_stream

from .making import Making

ALERT = Alert(
    "stall", "no step; $(touch pwned) 'quoted' \"too\"", 12_000.0, True, {"quiet_ms": 5.0}, (Place("a b.py", 3),)
)
TELL = """
import json, os, sys
given = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([given, {k: v for k, v in os.environ.items() if "SLOWTRAIN" in k}]) + "\\n")
"""


def frame(*found: Alert) -> Frame:
    return Frame("/runs/a", "train.py", RunState.RUNNING, 20_000.0, alerts=found)


def wait(told: frame_outputs.AlertDelivery, seconds: float = 20.0) -> None:
    assert told.command is not None
    until = time.monotonic() + seconds
    while told.command._process is not None and time.monotonic() < until:
        time.sleep(0.02)
        told.command.turn()


def test_a_function_is_told_once_and_again_when_it_arises_again() -> None:
    seen: list[float] = []
    told = frame_outputs.AlertDelivery((lambda alert, _: seen.append(alert.at_ms),))
    again = Alert("stall", "again", 30_000.0)
    for alerts in ((ALERT,), (ALERT,), (), (Alert("stall", "over", 12_000.0, over_ms=15_000.0),), (again,)):
        told.look(frame(*alerts))
    assert seen == [12_000.0, 30_000.0]


def test_a_function_that_fails_is_noted() -> None:
    told = frame_outputs.AlertDelivery((lambda alert, _: 1 / 0,))  # type: ignore[arg-type]
    told.look(frame(ALERT))
    assert "ZeroDivisionError" in told.note


def test_a_command_gets_the_evidence(tmp_path: Path) -> None:
    script, out = tmp_path / "tell.py", tmp_path / "with a blank.txt"
    script.write_text(TELL)
    told = frame_outputs.parse_alert_command(f"{sys.executable} {script} '{out}'")
    told.look(frame(ALERT))
    told.close()
    document, environment = json.loads(out.read_text())
    assert document["schema"] == "slowtrain.alert/1"
    assert document["alert"]["says"] == ALERT.says == environment["SLOWTRAIN_ALERT_SAYS"]
    assert document["alert"]["numbers"] == {"quiet_ms": 5.0}
    assert (environment["SLOWTRAIN_ALERT_FILE"], environment["SLOWTRAIN_ALERT_LINE"]) == ("a b.py", "3")
    assert environment["SLOWTRAIN_ALERT_URGENT"] == "1"
    assert not (tmp_path / "pwned").exists()


def test_one_at_a_time_and_not_too_often(tmp_path: Path) -> None:
    told = frame_outputs.parse_alert_command(f"{sys.executable} -c 'import time; time.sleep(0.2)'")
    assert told.command is not None
    for i in range(50):
        told.look(frame(Alert(f"a{i}", "x", 1.0)))
    assert told.command.runs == 1
    assert len(told.command._waiting) <= frame_outputs.MAX_WAITING_ALERTS
    wait(told)
    told.look(frame())
    assert told.command.runs == 1
    told.command._waiting.clear()
    told.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit(3)", r"failed \(exit code 3\)"), ("import time; time.sleep(60)", "was stopped")],
)
def test_a_command_that_fails_is_noted(code: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_outputs, "MAX_COMMAND_S", 1.5)
    told = frame_outputs.parse_alert_command(f"{sys.executable} -c '{code}'")
    told.look(frame(ALERT))
    wait(told)
    assert pytest.importorskip("re").search(said, told.note), told.note
    told.close()


@pytest.mark.parametrize("text", ["", "   ", "'open", "no-such-program-anywhere --now"])
def test_what_is_no_command(text: str) -> None:
    with pytest.raises(InputError, match="alert-command"):
        frame_outputs.parse_alert_command(text)


def test_what_looks_for_alerts_and_fails_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(frame_stream, "STREAM_COMMAND", "raise ImportError('no slowtrain here')")
    process = frame_stream.FrameStream(tmp_path, 1.0, lambda _: None)
    process._thread.join(20)
    (said,) = caplog.messages
    assert said.startswith("no alerts and no figures from now on")
    assert "ImportError: no slowtrain here" in said
    process.close()


def test_numbers_that_are_not_finite_come_back_as_numbers() -> None:
    told = frame(Alert("drift/growing-step", "x", 1.0, numbers={"left_ms": float("inf"), "first_ms": 2.0}))
    again = frame_stream.parse_frame(json.loads(frames.frame_json(told, indent=None)))
    assert again.alerts[0].numbers == {"left_ms": float("inf"), "first_ms": 2.0}


def test_what_arose_in_the_last_moment_of_a_run_is_told_when_it_has_ended(tmp_path: Path) -> None:
    """The loss is lost between two looks, and the script ends by that."""
    seen: list[str] = []
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    live_run = _live_view.LiveView(
        made.folder, frame_outputs.AlertDelivery((lambda alert, _: seen.append(alert.id),)), shown=False
    )
    live_run.tick(1.0)
    made.write(events=[(made.at_ns, made.at_ns, "nonfinite", "loss", {"step": 7, "value": "nan"})])
    live_run.tick(1.5)
    assert seen == []
    made.ends(1)
    live_run.close()
    assert seen == ["nonfinite-loss"]
