"""A frame of a run in progress as a screen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from slowtrain.report import frames, wording
from slowtrain.report.terminal import GREY, PART_COLOURS, Terminal
from slowtrain.shared.live_frame import Alert, Curve, Frame, RunState

MAX_SCREEN_COLUMNS, MIN_SCREEN_COLUMNS = 120, 24
LABEL_COLUMNS = 12
BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.-=+*#@"
STATES = {
    RunState.RUNNING: "green",
    RunState.STARTING: "cyan",
    RunState.ENDED: GREY,
    RunState.LOST: "red",
    RunState.CUT: "yellow",
}
MIN_TOP_RATIO = 1.25  # to the median: a curve with a higher top is drawn up to that top
MIN_DRAWN_SHARE = 0.005  # of a step; smaller parts are not drawn
MAX_LOGS = 4


def screen_lines(frame: Frame, *, width: int, height: int, colour: bool, unicode: bool, hint: str = "") -> list[str]:
    """At most ``height`` lines of at most ``width`` columns. The least important lines are left out first."""
    out = Terminal(max(min(width, MAX_SCREEN_COLUMNS), MIN_SCREEN_COLUMNS), colour, unicode)
    last = [out.style(out.fit(hint), "dim")] if hint and height >= 4 else []
    room = max(height - len(last), 1)
    for parts, evidence, alerts, airy in (
        (9, 6, 6, True), (8, 4, 5, True), (7, 3, 5, True), (6, 2, 4, True), (6, 2, 4, False), (5, 2, 3, False),
        (4, 1, 3, False), (3, 1, 2, False), (2, 1, 1, False), (0, 1, 1, False),
    ):  # fmt: skip
        lines = list(_screen_blocks(frame, out, parts, evidence, alerts, airy))
        if len(lines) <= room:
            break
    lines = lines[:room]
    if height >= 14:
        lines += [""] * (room - len(lines))
    return [line.rstrip() for line in (*lines, *last)]


def foot_lines(frame: Frame, *, width: int, height: int, colour: bool, unicode: bool) -> list[str]:
    """Exactly ``height`` lines, to stand below the script's own output."""
    out = Terminal(max(min(width, MAX_SCREEN_COLUMNS), MIN_SCREEN_COLUMNS), colour, unicode)
    rule = out.style(("─" if unicode else "-") * out.width, "dim")
    lines = [
        rule,
        _title_line(frame, out),
        *list(_progress_lines(frame, out))[:1],
        *_step_lines(frame, out),
        *_largest_parts_lines(frame, out),
    ]
    lines += list(_alert_lines(frame, out, 2, 1))
    lines += _memory_lines(frame, out)
    lines = lines[:height]
    return [line.rstrip() for line in lines] + [""] * (height - len(lines))


def _screen_blocks(frame: Frame, out: Terminal, parts: int, evidence: int, alerts: int, airy: bool) -> Iterator[str]:
    gap = [""] if airy else []
    yield _title_line(frame, out)
    yield from _progress_lines(frame, out)
    yield from gap
    yield from _step_lines(frame, out)
    yield from _curve_lines(frame, out)
    if parts:
        yield from gap
        yield from _part_lines(frame, out, parts)
    yield from gap
    yield from _memory_lines(frame, out)
    yield from _processor_lines(frame, out)
    yield from gap
    yield from _alert_lines(frame, out, evidence, alerts)
    yield from _cause_lines(frame, out)


def _title_line(frame: Frame, out: Terminal) -> str:
    state = str(frame.state)
    if frame.state is RunState.ENDED and frame.exit_code is not None:
        state = f"ended, exit code {frame.exit_code}"
    shown = frames.elapsed_text(frame.run_ms)
    tail = f" {state} · {shown}"
    if cell_len(tail) + LABEL_COLUMNS > out.width:
        return out.style(out.fit(tail), STATES[frame.state])
    name = out.fit(f"slowtrain  {frame.command or frame.folder}", max(out.width - cell_len(tail) - 1, 9))
    gap = " " * max(out.width - cell_len(name) - cell_len(out.plain(tail)) - 1, 1)
    return out.style(name, "bold") + gap + out.style(out.plain(tail), STATES[frame.state])


def _progress_lines(frame: Frame, out: Terminal) -> Iterator[str]:
    """How far the run has come."""
    done = frame.progress
    words = []
    upto = "at most " if done.at_most else ""
    if done.steps is not None:
        of = f" of {upto}{done.planned:,}" if done.planned else ""
        words.append(f"step {done.steps:,}{of}")
    if done.epoch is not None:
        of = f" of {upto}{done.epochs:,}" if done.epochs else ""
        words.append(f"epoch {done.epoch:,}{of}")
    if done.left_ms is not None and frame.state is RunState.RUNNING:
        words.append(
            f"{upto or 'about '}{frames.time_left(done.left_ms)} left" + (f" ({done.loop})" if done.loop else "")
        )
    if done.epoch_step is not None and done.steps_per_epoch is not None:
        words.append(f"{done.epoch_step:,} of {done.steps_per_epoch:,} steps")
    if words:
        yield _labelled_line(out, "progress", " · ".join(words))
    logs = [f"{name} {_loss_text(value)}" for name, value in list(done.logs.items())[:MAX_LOGS]]
    if logs:
        yield _labelled_line(out, "last epoch", " · ".join(logs))


def _loss_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else repr(value)


def _step_lines(frame: Frame, out: Terminal) -> list[str]:
    step = frame.step
    if step.now_ms is None and step.run_ms is None:
        return [_labelled_line(out, "step", frame.why or "no step yet")]
    words = [f"{wording.duration_text(step.now_ms)} now"] if step.now_ms is not None else ["none now"]
    if step.run_ms is not None:
        words.append(f"{wording.duration_text(step.run_ms)} over the run")
    if step.slow_ms is not None:
        words.append(f"one in 20 above {wording.duration_text(step.slow_ms)}")
    if step.samples_per_s is not None:
        words.append(f"{wording.number_text(round(step.samples_per_s))} samples/s")
    return [_labelled_line(out, "step", " · ".join(words))]


def _curve_lines(frame: Frame, out: Terminal) -> Iterator[str]:
    whole = frame.step.over_run
    if whole.end_ms - whole.start_ms > 1.5 * (frame.step.lately.end_ms - frame.step.lately.start_ms):
        yield _curve_line(out, "over the run", whole)
    yield _curve_line(out, "last minute", frame.step.lately)


def _curve_line(out: Terminal, label: str, curve: Curve) -> str:
    known = curve.known_values
    if not known:
        return _labelled_line(out, label, "no step")
    low, high = min(known), max(known)
    scale = f"{wording.duration_text(low)} to {wording.duration_text(high)}"
    width = max(min(out.width - LABEL_COLUMNS - 24, 60), 8)
    return _labelled_line(out, label, curve_blocks(out, curve.values, width), scale)


def curve_blocks(out: Terminal, values: Sequence[float | None], width: int) -> str:
    """A line of blocks on a scale from 0 on. The median stands half-way up, so that small changes look small. A column
    without a value is blank.
    """
    blocks = BLOCKS if out.unicode else PLAIN_BLOCKS
    columns = _column_maxima(values, width)
    known = sorted(v for v in columns if v is not None)
    usual = known[len(known) // 2] if known else 0.0
    top = known[-1] if known and known[-1] > MIN_TOP_RATIO * usual else 1.9 * usual
    drawn = []
    for value in columns:
        at = 0 if value is None or top <= 0 else min(int(value / top * len(blocks)), len(blocks) - 1)
        drawn.append(" " if value is None else blocks[at])
    return "".join(drawn)


def _column_maxima(values: Sequence[float | None], width: int) -> list[float | None]:
    """The highest value of each column, so that no spike is smoothed away."""
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    parts = [[v for v in values[a:b] if v is not None] for a, b in itertools.pairwise(edges)]
    return [max(part) if part else None for part in parts]


def _part_lines(frame: Frame, out: Terminal, most: int) -> Iterator[str]:
    if not frame.parts:
        if frame.step.run_ms is not None:
            yield _labelled_line(out, "where it goes", frame.why)
        return
    yield out.heading(f"where a step goes (last {frames.elapsed_text(frame.window_ms)})")
    whole = sum(p.ms for p in frame.parts)
    shown = [p for p in frame.parts if p.share >= MIN_DRAWN_SHARE][:most]
    for part in shown:
        label = wording.category_words(part.name)[0]
        figures = f"{wording.duration_like(part.ms, whole):>9} {wording.share_text(part.share):>5}"
        bar = out.bar(part.share, max(out.width - LABEL_COLUMNS - 8 - 17, 4))
        yield f"  {out.column(label, LABEL_COLUMNS + 4)}{figures}  {out.style(bar, PART_COLOURS.get(part.name, GREY))}"
    if frame.why:
        yield out.style(out.fit_end("  ", frame.why), "dim")


def _largest_parts_lines(frame: Frame, out: Terminal) -> list[str]:
    """The largest parts in one line."""
    if not frame.parts:
        return []
    words = [
        f"{wording.category_words(p.name)[0]} {wording.share_text(p.share)}" for p in frame.parts if p.share >= 0.02
    ][:4]
    return [_labelled_line(out, "goes to", " · ".join(words))]


def _memory_lines(frame: Frame, out: Terminal) -> list[str]:
    machine = frame.machine
    if machine.rss_bytes is None:
        return [_labelled_line(out, "memory", "not measured")]
    words = wording.bytes_text(machine.rss_bytes)
    if machine.available_bytes is not None:
        words += f", {wording.bytes_text(machine.available_bytes)} free"
        words += f" of {wording.bytes_text(machine.limit_bytes)}" if machine.limit_bytes is not None else ""
    room = out.width - LABEL_COLUMNS - 2 - cell_len(words) - 2
    line = curve_blocks(out, machine.rss.values, min(room, 30)) if room >= 10 and machine.rss.known_values else ""
    return [_labelled_line(out, "memory", f"{out.pad(words, 34)} {line}" if line and room >= 14 else words)]


def _processor_lines(frame: Frame, out: Terminal) -> Iterator[str]:
    machine = frame.machine
    if machine.cores is not None:
        of = f" of {wording.number_text(machine.usable_cores)}" if machine.usable_cores is not None else ""
        words = f"{machine.cores:.1f}{of} cores at work"
        if machine.disk_free_bytes is not None:
            words += f" · disk {wording.bytes_text(machine.disk_free_bytes)} free"
        yield _labelled_line(out, "processor", words)
    for i, gpu in enumerate(machine.gpus[:4]):
        gpu_words = [
            wording.share_text(gpu.util_share) + " of the time at work" if gpu.util_share is not None else "not read"
        ]
        if gpu.used_bytes is not None and gpu.total_bytes is not None:
            gpu_words.append(f"{wording.bytes_text(gpu.used_bytes)} of {wording.bytes_text(gpu.total_bytes)}")
        if gpu.celsius is not None:
            gpu_words.append(f"{gpu.celsius:.0f} °C")
        if gpu.watts is not None:
            gpu_words.append(f"{gpu.watts:.0f} W")
        yield _labelled_line(out, f"GPU {i}", " · ".join(gpu_words))
    if frame.doing is not None and frame.state is RunState.RUNNING:
        inside = f" ({frame.doing_what})" if frame.doing_what else ""
        yield _labelled_line(out, "now at", f"{_file_name(frame.doing.file)}:{frame.doing.line}{inside}")


def _file_name(file: str) -> str:
    return file.rpartition("/")[2] or file


def _alert_lines(frame: Frame, out: Terminal, evidence: int, most: int) -> Iterator[str]:
    standing = [a for a in frame.alerts if a.over_ms is None]
    over = [a for a in frame.alerts if a.over_ms is not None]
    if not standing and not over:
        note = "" if frame.examined_ms is not None else "; the recording was not examined for causes yet"
        yield _labelled_line(out, "alerts", f"none so far{note}")
        return
    for alert in [*standing, *over][:most]:
        yield from _alert_block(alert, out, evidence if alert.over_ms is None else 1)
    more = len(standing) + len(over) - most
    if more > 0:
        yield out.style(out.fit_end("  ", f"and {more} more (--json has all)"), "dim")


def _alert_block(alert: Alert, out: Terminal, lines: int) -> Iterator[str]:
    tone = GREY if alert.over_ms is not None else "bold red" if alert.urgent else "yellow"
    mark = ("■" if out.unicode else "*") if alert.over_ms is not None else "▲" if out.unicode else "!"
    when = (
        f"over since {_clock_text(alert.over_ms)}" if alert.over_ms is not None else f"since {_clock_text(alert.at_ms)}"
    )
    head = f"{mark} {alert.id}"
    yield out.style(out.fit(head, max(out.width - 24, 8)), tone) + "  " + out.style(when, "dim")
    yield from out.hanging("  ", alert.says, lines=lines)
    if alert.where and lines > 1 and str(alert.where[0]) not in alert.says:
        code = f"  {alert.where[0].code}" if alert.where[0].code else ""
        yield out.style(out.fit_end("  ", f"{alert.where[0]}{code}"), "dim")


def _clock_text(ms: float) -> str:
    seconds = int(ms / 1000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _cause_lines(frame: Frame, out: Terminal) -> Iterator[str]:
    if not frame.found:
        return
    named = [f"{f.cause} ({f.speedup:.1f}x of {'the run' if f.scope == 'run' else 'a step'})" for f in frame.found]
    yield _labelled_line(
        out, "causes", ", ".join(named[:4]) + ("" if len(named) <= 4 else f" and {len(named) - 4} more")
    )


def _labelled_line(out: Terminal, label: str, text: str, after: str = "") -> str:
    start = f"{out.column(label, LABEL_COLUMNS)} "
    if not after and text.strip():
        return out.label_line(start, text)
    # A curve's own blanks are part of it.
    return out.style(start, "dim") + text + " " + out.fit(after, max(out.width - cell_len(start + text) - 1, 0))
