"""A frame of a run in progress as one plain line and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from slowtrain.report import wording
from slowtrain.shared.live_frame import Alert, Frame, RunState
from slowtrain.shared.vocabulary import Category

SCHEMA = "slowtrain.frame/1"


def time_left(ms: float) -> str:
    """The remaining time, rounded to what a forecast can know."""
    seconds = ms / 1000
    if seconds < 90:
        return f"{max(round(seconds / 5) * 5, 5)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours / 24:.1f} days"


def elapsed_text(ms: float) -> str:
    """Elapsed time in whole seconds."""
    seconds = round(ms / 1000)
    return f"{seconds} s" if seconds < 120 else wording.duration_text(seconds * 1000.0)


def status_line(frame: Frame) -> str:
    """The run in one plain line, for logs and dumb terminals."""
    done, step = frame.progress, frame.step
    words = [elapsed_text(frame.run_ms)]
    if frame.state is not RunState.RUNNING:
        words.append(str(frame.state) + (f" (exit code {frame.exit_code})" if frame.exit_code is not None else ""))
    words.append(f"{done.steps} step{'' if done.steps == 1 else 's'}" if done.steps is not None else "no steps yet")
    if done.epoch is not None:
        words.append(f"epoch {done.epoch}" + (f"/{done.epochs}" if done.epochs else ""))
    if step.now_ms is not None:
        words.append(f"{wording.duration_text(step.now_ms)} a step")
    if frame.parts:
        words.append(f"{wording.category_words(frame.parts[0].name)[0]} {wording.share_text(frame.parts[0].share)}")
    if frame.machine.rss_bytes is not None:
        words.append(wording.bytes_text(frame.machine.rss_bytes))
    if done.left_ms is not None and frame.state is RunState.RUNNING:
        words.append(("at most " if done.at_most else "") + f"{time_left(done.left_ms)} left")
    standing = [a.id for a in frame.alerts if a.over_ms is None]
    if standing:
        words.append("alerts: " + " ".join(standing))
    return wording.printable_text(", ".join(words))


def alert_line(alert: Alert) -> str:
    """An alert in one plain line."""
    what = "over" if alert.over_ms is not None else "ALERT" if alert.urgent else "alert"
    where = f" ({alert.where[0]})" if alert.where and str(alert.where[0]) not in alert.says else ""
    return wording.printable_text(f"{what} {alert.id}: {alert.says}{where}")


def frame_document(frame: Frame) -> dict[str, Any]:
    """The frame as a JSON document. What was not measured is null."""
    found: dict[str, Any] = _json_value(frame)
    return {"schema": SCHEMA, **found}


def frame_json(frame: Frame, indent: int | None = 2) -> str:
    return json.dumps(frame_document(frame), indent=indent, ensure_ascii=indent is None, allow_nan=False)


def _json_value(value: Any) -> Any:
    if isinstance(value, RunState | Category):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {f.name: _json_value(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value
