"""A frame of a run in progress: as a screen, as one plain line, as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from slowtrain.model import Category
from slowtrain.model.answers.live_frame import Alert, Curve, Frame, RunState
from slowtrain.report import wording
from slowtrain.report.terminal import Paper, cells

SCHEMA = "slowtrain.frame/1"
WIDEST, NARROWEST = 120, 24
LABEL = 12  # columns of the names at the left
BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.-=+*#@"
COLOURS = {
    "input": "yellow", "convert": "magenta", "h2d": "magenta", "d2h": "magenta", "compile": "red", "dispatch": "blue",
    "host-op": "blue", "python": "cyan",
    "callback": "cyan", "gc": "red", "device": "green", "unattributed": "grey",
}  # fmt: skip
STATES = {
    RunState.RUNNING: "green",
    RunState.STARTING: "cyan",
    RunState.ENDED: "grey",
    RunState.LOST: "red",
    RunState.CUT: "yellow",
}
VARIES = 1.25  # times the median: a curve with a higher top is drawn up to that top
LEAST_SHARE = 0.005  # of a step; smaller parts are not drawn
MOST_LOGS = 4


def screen(frame: Frame, *, width: int, height: int, colour: bool, unicode: bool, hint: str = "") -> list[str]:
    """At most ``height`` lines of at most ``width`` columns. What matters least is left out first."""
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    last = [paper.style(paper.fit(hint, paper.width), "dim")] if hint and height >= 4 else []
    room = max(height - len(last), 1)
    for parts, evidence, alerts, airy in (
        (9, 6, 6, True), (8, 4, 5, True), (7, 3, 5, True), (6, 2, 4, True), (6, 2, 4, False), (5, 2, 3, False),
        (4, 1, 3, False), (3, 1, 2, False), (2, 1, 1, False), (0, 1, 1, False),
    ):  # fmt: skip
        lines = list(_blocks(frame, paper, parts, evidence, alerts, airy))
        if len(lines) <= room:
            break
    lines = lines[:room]
    if height >= 14:
        lines += [""] * (room - len(lines))
    return [line.rstrip() for line in (*lines, *last)]


def area(frame: Frame, *, width: int, height: int, colour: bool, unicode: bool) -> list[str]:
    """The few lines below a script's own output: exactly ``height``."""
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    rule = paper.style(("─" if unicode else "-") * paper.width, "dim")
    lines = [rule, _title(frame, paper), *list(_ways(frame, paper))[:1], *_steps(frame, paper), *_where(frame, paper)]
    lines += list(_alerts(frame, paper, 2, 1))
    lines += _memory(frame, paper)
    lines = lines[:height]
    return [line.rstrip() for line in lines] + [""] * (height - len(lines))


def _blocks(frame: Frame, paper: Paper, parts: int, evidence: int, alerts: int, airy: bool) -> Iterator[str]:
    gap = [""] if airy else []
    yield _title(frame, paper)
    yield from _ways(frame, paper)
    yield from gap
    yield from _steps(frame, paper)
    yield from _curves(frame, paper)
    if parts:
        yield from gap
        yield from _parts(frame, paper, parts)
    yield from gap
    yield from _memory(frame, paper)
    yield from _processor(frame, paper)
    yield from gap
    yield from _alerts(frame, paper, evidence, alerts)
    yield from _found(frame, paper)


# -- lines


def _title(frame: Frame, paper: Paper) -> str:
    state = str(frame.state)
    if frame.state is RunState.ENDED and frame.exit_code is not None:
        state = f"ended, exit code {frame.exit_code}"
    shown = _span(frame.run_ms)
    tail = f" {state} · {shown}"
    if cells(tail) + LABEL > paper.width:
        return paper.style(paper.fit(tail, paper.width), STATES[frame.state])
    name = paper.fit(f"slowtrain  {frame.command or frame.folder}", max(paper.width - cells(tail) - 1, 9))
    gap = " " * max(paper.width - cells(name) - cells(paper.plain(tail)) - 1, 1)
    return paper.style(name, "bold") + gap + paper.style(paper.plain(tail), STATES[frame.state])


def _ways(frame: Frame, paper: Paper) -> Iterator[str]:
    """How far it is."""
    done = frame.progress
    said = []
    upto = "at most " if done.at_most else ""
    if done.steps is not None:
        of = f" of {upto}{done.planned:,}" if done.planned else ""
        said.append(f"step {done.steps:,}{of}")
    if done.epoch is not None:
        of = f" of {upto}{done.epochs:,}" if done.epochs else ""
        said.append(f"epoch {done.epoch:,}{of}")
    if done.left_ms is not None and frame.state is RunState.RUNNING:
        said.append(f"{upto or 'about '}{left(done.left_ms)} left" + (f" ({done.loop})" if done.loop else ""))
    if done.epoch_step is not None and done.steps_per_epoch is not None:
        said.append(f"{done.epoch_step:,} of {done.steps_per_epoch:,} steps")
    if said:
        yield _labelled(paper, "progress", " · ".join(said))
    logs = [f"{name} {_loss(value)}" for name, value in list(done.logs.items())[:MOST_LOGS]]
    if logs:
        yield _labelled(paper, "last epoch", " · ".join(logs))


def left(ms: float) -> str:
    """A time to come, no more exactly than it can be known."""
    seconds = ms / 1000
    if seconds < 90:
        return f"{max(round(seconds / 5) * 5, 5)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours / 24:.1f} days"


def _span(ms: float) -> str:
    """A time that goes on, in whole seconds."""
    seconds = round(ms / 1000)
    return f"{seconds} s" if seconds < 120 else wording.duration(seconds * 1000.0)


def _loss(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else repr(value)


def _steps(frame: Frame, paper: Paper) -> list[str]:
    step = frame.step
    if step.now_ms is None and step.run_ms is None:
        return [_labelled(paper, "step", frame.why or "no step yet")]
    said = [f"{wording.duration(step.now_ms)} now"] if step.now_ms is not None else ["none now"]
    if step.run_ms is not None:
        said.append(f"{wording.duration(step.run_ms)} over the run")
    if step.slow_ms is not None:
        said.append(f"one in 20 above {wording.duration(step.slow_ms)}")
    if step.samples_per_s is not None:
        said.append(f"{wording.number(round(step.samples_per_s))} samples/s")
    return [_labelled(paper, "step", " · ".join(said))]


def _curves(frame: Frame, paper: Paper) -> Iterator[str]:
    whole = frame.step.over_run
    if whole.end_ms - whole.start_ms > 1.5 * (frame.step.lately.end_ms - frame.step.lately.start_ms):
        yield _curve(paper, "over the run", whole)
    yield _curve(paper, "last minute", frame.step.lately)


def _curve(paper: Paper, label: str, curve: Curve) -> str:
    known = curve.known
    if not known:
        return _labelled(paper, label, "no step")
    low, high = min(known), max(known)
    scale = f"{wording.duration(low)} to {wording.duration(high)}"
    width = max(min(paper.width - LABEL - 24, 60), 8)
    return _labelled(paper, label, spark(paper, curve.values, width), scale)


def spark(paper: Paper, values: Sequence[float | None], width: int) -> str:
    """A line of blocks from nought, so that a wobble looks like one; the usual stands half-way up. Blank: nothing."""
    blocks = BLOCKS if paper.unicode else PLAIN_BLOCKS
    columns = _resampled(values, width)
    known = sorted(v for v in columns if v is not None)
    usual = known[len(known) // 2] if known else 0.0
    top = known[-1] if known and known[-1] > VARIES * usual else 1.9 * usual
    drawn = []
    for value in columns:
        at = 0 if value is None or top <= 0 else min(int(value / top * len(blocks)), len(blocks) - 1)
        drawn.append(" " if value is None else blocks[at])
    return "".join(drawn)


def _resampled(values: Sequence[float | None], width: int) -> list[float | None]:
    """Stretches of the curve, each as high as its highest point: a spike is never smoothed away."""
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    parts = [[v for v in values[a:b] if v is not None] for a, b in itertools.pairwise(edges)]
    return [max(part) if part else None for part in parts]


def _parts(frame: Frame, paper: Paper, most: int) -> Iterator[str]:
    seconds = _span(frame.window_ms)
    if not frame.parts:
        if frame.step.run_ms is not None:
            yield _labelled(paper, "where it goes", frame.why)
        return
    yield paper.style(paper.fit(f"where a step goes (last {seconds})", paper.width), "bold")
    whole = sum(p.ms for p in frame.parts)
    shown = [p for p in frame.parts if p.share >= LEAST_SHARE][:most]
    for part in shown:
        label = wording.category(part.name)[0]
        figures = f"{wording.duration_in(part.ms, whole):>9} {wording.share(part.share):>5}"
        bar = paper.bar(part.share, max(paper.width - LABEL - 8 - 17, 4))
        yield (
            "  " + paper.pad(paper.fit(label, LABEL + 4), LABEL + 4) + figures + "  "
            + paper.style(bar, COLOURS.get(part.name, "grey"))
        )  # fmt: skip
    if frame.why:
        yield "  " + paper.style(paper.fit(frame.why, paper.width - 2), "dim")


def _where(frame: Frame, paper: Paper) -> list[str]:
    """The largest parts in one line."""
    if not frame.parts:
        return []
    said = [f"{wording.category(p.name)[0]} {wording.share(p.share)}" for p in frame.parts if p.share >= 0.02][:4]
    return [_labelled(paper, "goes to", " · ".join(said))]


def _memory(frame: Frame, paper: Paper) -> list[str]:
    machine = frame.machine
    if machine.rss_bytes is None:
        return [_labelled(paper, "memory", "not measured")]
    said = wording.size(machine.rss_bytes)
    if machine.available_bytes is not None:
        said += f", {wording.size(machine.available_bytes)} free"
        said += f" of {wording.size(machine.limit_bytes)}" if machine.limit_bytes is not None else ""
    room = paper.width - LABEL - 2 - cells(said) - 2
    line = spark(paper, machine.rss.values, min(room, 30)) if room >= 10 and machine.rss.known else ""
    return [_labelled(paper, "memory", f"{paper.pad(said, 34)} {line}" if line and room >= 14 else said)]


def _processor(frame: Frame, paper: Paper) -> Iterator[str]:
    machine = frame.machine
    if machine.cores is not None:
        of = f" of {wording.number(machine.usable_cores)}" if machine.usable_cores is not None else ""
        said = f"{machine.cores:.1f}{of} cores at work"
        if machine.disk_free_bytes is not None:
            said += f" · disk {wording.size(machine.disk_free_bytes)} free"
        yield _labelled(paper, "processor", said)
    for i, gpu in enumerate(machine.gpus[:4]):
        said_gpu = [
            wording.share(gpu.util_share) + " of the time at work" if gpu.util_share is not None else "not read"
        ]
        if gpu.used_bytes is not None and gpu.total_bytes is not None:
            said_gpu.append(f"{wording.size(gpu.used_bytes)} of {wording.size(gpu.total_bytes)}")
        if gpu.celsius is not None:
            said_gpu.append(f"{gpu.celsius:.0f} °C")
        if gpu.watts is not None:
            said_gpu.append(f"{gpu.watts:.0f} W")
        yield _labelled(paper, f"GPU {i}", " · ".join(said_gpu))
    if frame.doing is not None and frame.state is RunState.RUNNING:
        inside = f" ({frame.doing_what})" if frame.doing_what else ""
        yield _labelled(paper, "now at", f"{_short(frame.doing.file)}:{frame.doing.line}{inside}")


def _short(file: str) -> str:
    return file.rpartition("/")[2] or file


def _alerts(frame: Frame, paper: Paper, evidence: int, most: int) -> Iterator[str]:
    standing = [a for a in frame.alerts if a.over_ms is None]
    over = [a for a in frame.alerts if a.over_ms is not None]
    if not standing and not over:
        told = "" if frame.examined_ms is not None else "; the recording was not examined for causes yet"
        yield _labelled(paper, "alerts", f"none so far{told}")
        return
    for alert in [*standing, *over][:most]:
        yield from _alert(alert, paper, evidence if alert.over_ms is None else 1)
    more = len(standing) + len(over) - most
    if more > 0:
        yield "  " + paper.style(paper.fit(f"and {more} more (--json has all)", paper.width - 2), "dim")


def _alert(alert: Alert, paper: Paper, lines: int) -> Iterator[str]:
    tone = ("grey",) if alert.over_ms is not None else ("red", "bold") if alert.urgent else ("yellow",)
    mark = ("■" if paper.unicode else "*") if alert.over_ms is not None else "▲" if paper.unicode else "!"
    when = f"over since {_clock(alert.over_ms)}" if alert.over_ms is not None else f"since {_clock(alert.at_ms)}"
    head = f"{mark} {alert.id}"
    yield paper.style(paper.fit(head, max(paper.width - 24, 8)), *tone) + "  " + paper.style(when, "dim")
    for line in paper.wrap(alert.says, paper.width - 2, lines):
        yield f"  {line}"
    if alert.where and lines > 1 and str(alert.where[0]) not in alert.says:
        code = f"  {alert.where[0].code}" if alert.where[0].code else ""
        yield "  " + paper.style(paper.fit(f"{alert.where[0]}{code}", paper.width - 2), "dim")


def _clock(ms: float) -> str:
    seconds = int(ms / 1000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _found(frame: Frame, paper: Paper) -> Iterator[str]:
    if not frame.found:
        return
    named = [f"{f.cause} ({f.speedup:.1f}x of {'the run' if f.scope == 'run' else 'a step'})" for f in frame.found]
    yield _labelled(paper, "causes", ", ".join(named[:4]) + ("" if len(named) <= 4 else f" and {len(named) - 4} more"))


def _labelled(paper: Paper, label: str, text: str, after: str = "") -> str:
    room = paper.width - LABEL - 1
    body = paper.fit(text, room) if text.strip() and not after else text
    if after:
        # A curve's own blanks are part of it.
        body = f"{text} {paper.fit(after, max(room - cells(text) - 1, 0))}"
    return paper.style(paper.pad(paper.fit(label, LABEL), LABEL), "dim") + " " + body


# -- one line, one document


def line(frame: Frame) -> str:
    """The run in one plain line, for logs and terminals that cannot be drawn on."""
    done, step = frame.progress, frame.step
    said = [_span(frame.run_ms)]
    if frame.state is not RunState.RUNNING:
        said.append(str(frame.state) + (f" (exit code {frame.exit_code})" if frame.exit_code is not None else ""))
    said.append(f"{done.steps} step{'' if done.steps == 1 else 's'}" if done.steps is not None else "no steps yet")
    if done.epoch is not None:
        said.append(f"epoch {done.epoch}" + (f"/{done.epochs}" if done.epochs else ""))
    if step.now_ms is not None:
        said.append(f"{wording.duration(step.now_ms)} a step")
    if frame.parts:
        said.append(f"{wording.category(frame.parts[0].name)[0]} {wording.share(frame.parts[0].share)}")
    if frame.machine.rss_bytes is not None:
        said.append(wording.size(frame.machine.rss_bytes))
    if done.left_ms is not None and frame.state is RunState.RUNNING:
        said.append(("at most " if done.at_most else "") + f"{left(done.left_ms)} left")
    standing = [a.id for a in frame.alerts if a.over_ms is None]
    if standing:
        said.append("alerts: " + " ".join(standing))
    return wording.clean(", ".join(said))


def alert_line(alert: Alert) -> str:
    """An alert in one plain line."""
    what = "over" if alert.over_ms is not None else "ALERT" if alert.urgent else "alert"
    where = f" ({alert.where[0]})" if alert.where and str(alert.where[0]) not in alert.says else ""
    return wording.clean(f"{what} {alert.id}: {alert.says}{where}")


def plain(frame: Frame) -> dict[str, Any]:
    """The frame as JSON has it; what was not measured is null."""
    found: dict[str, Any] = _plain(frame)
    return {"schema": SCHEMA, **found}


def document(frame: Frame, indent: int | None = 2) -> str:
    return json.dumps(plain(frame), indent=indent, ensure_ascii=indent is None, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, RunState | Category):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value
