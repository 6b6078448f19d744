"""The batch size from which one device is faster than the other, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Struct, field

from slowtrain import __version__
from slowtrain.model.measurements import Crossover, Overtaking, Range, Side
from slowtrain.report import wording
from slowtrain.report.documents import Tool, at, build_document, json_text
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

SCHEMA = "slowtrain.crossover/1"
MAX_ROWS = 8
SIDE_COLUMNS = 16
MIN_SHOWN_MS = 0.1  # a sample; less is shown in µs


def crossover_text(found: Crossover, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then a row for each batch, the fitted lines, and the costs of the start."""
    return joined_lines(_text_lines(found, Terminal(readable_width(width), colour, unicode)))


def crossover_headline(found: Crossover) -> str:
    own = next((o for o in found.overtaking if o.batch == found.own_batch), None)
    batch = winner_by_batch(found)
    if own is None:
        return batch
    at = f"at the script's batch of {own.batch:,} {step_winner(own)}"
    return f"{at}{lead_text(own)}; {batch}"


def winner_by_batch(found: Crossover) -> str:
    """The batch size from which on one device wins in the steady step."""
    if found.winner is None or found.batch is None:
        return "too few batches for a line, so other batches are not known"
    start, most = found.batch, max(t.batch for side in found.sides for t in side.timings)
    if start.high <= 1:
        return f"{found.winner} wins at every batch up to {most:,}, the largest measured"
    if math.isinf(start.value):
        return "no batch is known from which the order changes"
    far = f" (by its line: {most:,} was the largest measured)" if start.value > most else ""
    if not math.isinf(start.high):
        return f"{found.winner} wins from batch {range_of_counts(start)} on{far}"
    if start.value <= 1:
        return f"{found.winner} may win at every batch, which is not certain"
    at, least = (wording.number_text(math.ceil(v)) for v in (start.value, start.low))
    return f"{found.winner} may win from batch {at} on ({least} at the least){far}, which is not certain"


def step_winner(one: Overtaking) -> str:
    if one.speedup.low <= 1 <= one.speedup.high:
        return f"neither is faster for certain ({one.faster} {speedup_text(one.speedup)})"
    return f"{one.faster} takes its steps {speedup_text(one.speedup)} as fast"


def lead_text(one: Overtaking) -> str:
    """The number of steps that make up for a slower start."""
    if one.steps is None or one.speedup.low <= 1 <= one.speedup.high:
        return ""
    if one.steps.high < 1:
        return " and is ahead from the first"
    if math.isinf(one.steps.value):
        return ""
    return f" and is ahead after {range_of_counts(one.steps)} steps"


def speedup_text(found: Range) -> str:
    high = "?" if math.isinf(found.high) else f"{found.high:.2f}"
    return f"{found.value:.2f}x ({found.low:.2f} to {high})"


def range_of_counts(found: Range) -> str:
    high = "any" if math.isinf(found.high) else wording.number_text(math.ceil(found.high))
    return f"{wording.number_text(math.ceil(found.value))} ({wording.number_text(math.floor(found.low))} to {high})"


def range_text(found: Range) -> str:
    low, high = (wording.number_text(v) if math.isfinite(v) else "?" for v in (found.low, found.high))
    return f"{wording.number_text(found.value)} ({low} to {high})"


def _text_lines(found: Crossover, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", crossover_headline(found), style="bold")
    yield ""
    head = "".join(out.pad(out.fit(side.name, SIDE_COLUMNS), SIDE_COLUMNS, right=True) for side in found.sides)
    yield out.style(f"  {'batch':>8}{head}   faster in the step, ahead after", "bold")
    for one in found.overtaking[:MAX_ROWS]:
        times = "".join(
            f"{wording.duration_text(mean_step_ms(side, one.batch)):>{SIDE_COLUMNS}}" for side in found.sides
        )
        mark = "*" if one.batch == found.own_batch else " "
        yield out.fit_end(f" {mark}{one.batch:>8,}{times}   ", _row_end(one))
    yield from out.section("A step takes a + b x batch (95 % intervals)")
    for side in found.sides:
        yield from out.hanging(f"  {side.name:<14}", fitted_line(side), lines=4)
    yield from out.section("Paid once, and where a step goes at the script's own batch")
    for side in found.sides:
        yield from out.hanging(f"  {side.name:<14}", start_cost(side), lines=4)
        yield from out.hanging(" " * 16, step_parts(side), lines=4)
    for note in (*found.notes, _measurement_note(found)):
        yield ""
        yield from out.hanging("Note: ", note, lines=4)


def _row_end(one: Overtaking) -> str:
    """The end of a row: the faster device, and after how many steps it is ahead, if that is certain."""
    if one.speedup.low <= 1 <= one.speedup.high:
        return f"not certain ({one.speedup.value:.2f}x)"
    return f"{one.faster} {one.speedup.value:.2f}x, {steps_until_ahead(one, 'not known')}"


def steps_until_ahead(one: Overtaking, unknown: str) -> str:
    return range_of_counts(one.steps) if one.steps is not None and math.isfinite(one.steps.value) else unknown


def _measurement_note(found: Crossover) -> str:
    count = sum(len(side.timings) for side in found.sides)
    took = wording.duration_text(1e3 * found.seconds)
    return f"{count} processes in {took}, the two in turn; * is the script's own batch"


def mean_step_ms(side: Side, batch: int) -> float | None:
    mine = [t.step_ms for t in side.timings if t.batch == batch]
    return sum(mine) / len(mine) if mine else None


def fitted_line(side: Side) -> str:
    if side.fit is None:
        return "too few batches or processes for a line"
    fit = side.fit
    each, unit = fit.per_sample_ms, "ms"
    if abs(each.value) < MIN_SHOWN_MS:
        each, unit = Range(1e3 * each.value, 1e3 * each.low, 1e3 * each.high), "µs"
    return f"a = {range_text(fit.fixed_ms)} ms, b = {range_text(each)} {unit}, {fit.processes} processes"


def start_cost(side: Side) -> str:
    start = side.start_s
    high = wording.duration_text(1e3 * start.high) if math.isfinite(start.high) else "?"
    until = f"{wording.duration_text(1e3 * start.value)} ({wording.duration_text(1e3 * start.low)} to {high})"
    return f"{until} until the first step, which takes {wording.duration_text(side.first_ms)}"


def step_parts(side: Side) -> str:
    parts = sorted(((ms, name) for name, ms in side.parts.items() if ms > 0), reverse=True)
    whole = sum(ms for ms, _ in parts)
    return "of a step: " + ", ".join(f"{name} {wording.share_text(ms / whole)}" for ms, name in parts) if whole else ""


class ProcessDocument(Struct):
    batch: int
    start_s: float
    first_ms: float = field(name="first_step_ms")
    step_ms: float


class SideDocument(Struct):
    name: str
    measured_on: Mapping[str, str | None]
    start_s: Range
    first_ms: float | None = field(name="first_step_ms")
    fixed_ms: Annotated[Range | None, at("fit.fixed_ms")]
    per_sample_ms: Annotated[Range | None, at("fit.per_sample_ms")]
    line_off_share: Annotated[float | None, at("fit.off_share")]
    parts: Mapping[str, float | None] = field(name="parts_ms")
    timings: tuple[ProcessDocument, ...] = field(name="processes")


class BatchDocument(Struct):
    batch: int
    faster: str
    speedup: Range
    steps: Range | None = field(name="ahead_after_steps")


class CrossoverDocument(Struct):
    """What slowtrain crossover --json writes. ``winner`` is faster from ``from_batch`` on."""

    schema: Literal["slowtrain.crossover/1"]
    tool: Tool
    says: str
    script: str
    command: tuple[str, ...]
    source_sha256: str | None
    own_batch: int
    device: str | None
    winner: str | None
    batch: Range | None = field(name="from_batch")
    sides: tuple[SideDocument, ...]
    overtaking: tuple[BatchDocument, ...] = field(name="batches")
    seconds: float
    notes: tuple[str, ...]


def crossover_json(found: Crossover) -> str:
    about = {"schema": SCHEMA, "tool": {"version": __version__}, "says": crossover_headline(found)}
    return json_text(build_document(CrossoverDocument, found, **about))
