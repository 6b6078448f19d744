"""Where one device overtakes the other, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from slowtrain import __version__
from slowtrain.model.answers.crossover_result import Crossover, Overtaking, Range, Side
from slowtrain.report import json as documents
from slowtrain.report import wording
from slowtrain.report.terminal import Paper

SCHEMA = "slowtrain.crossover/1"
WIDEST, NARROWEST = 110, 40
ROWS = 8
LEAST_MS = 0.1  # a sample: with two decimals less would read as hardly anything


def render(found: Crossover, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then a row for each batch, the lines, and what is paid once."""
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    return "\n".join(line.rstrip() for line in _lines(found, paper)) + "\n"


def headline(found: Crossover) -> str:
    own = next((o for o in found.overtaking if o.batch == found.own_batch), None)
    batch = by_batch(found)
    if own is None:
        return batch
    at = f"at the script's batch of {own.batch:,} {in_step(own)}"
    return f"{at}{after(own)}; {batch}"


def by_batch(found: Crossover) -> str:
    """From which batch on who wins in the steady step."""
    if found.winner is None or found.batch is None:
        return "too few batches for a line, so other batches are not known"
    start, most = found.batch, max(t.batch for side in found.sides for t in side.timings)
    if start.high <= 1:
        return f"{found.winner} wins at every batch up to {most:,}, the largest measured"
    if math.isinf(start.value):
        return "no batch is known from which the order changes"
    far = f" (by its line: {most:,} was the largest measured)" if start.value > most else ""
    if not math.isinf(start.high):
        return f"{found.winner} wins from batch {span(start)} on{far}"
    if start.value <= 1:
        return f"{found.winner} may win at every batch, which is not certain"
    at, least = (wording.number(math.ceil(v)) for v in (start.value, start.low))
    return f"{found.winner} may win from batch {at} on ({least} at the least){far}, which is not certain"


def in_step(one: Overtaking) -> str:
    if one.speedup.low <= 1 <= one.speedup.high:
        return f"neither is faster for certain ({one.faster} {ratio(one.speedup)})"
    return f"{one.faster} takes its steps {ratio(one.speedup)} as fast"


def after(one: Overtaking) -> str:
    """The steps that make up for a slower start."""
    if one.steps is None or one.speedup.low <= 1 <= one.speedup.high:
        return ""
    if one.steps.high < 1:
        return " and is ahead from the first"
    if math.isinf(one.steps.value):
        return ""
    return f" and is ahead after {span(one.steps)} steps"


def ratio(found: Range) -> str:
    high = "?" if math.isinf(found.high) else f"{found.high:.2f}"
    return f"{found.value:.2f}x ({found.low:.2f} to {high})"


def span(found: Range) -> str:
    high = "any" if math.isinf(found.high) else wording.number(math.ceil(found.high))
    return f"{wording.number(math.ceil(found.value))} ({wording.number(math.floor(found.low))} to {high})"


def ranged(found: Range) -> str:
    low, high = (wording.number(v) if math.isfinite(v) else "?" for v in (found.low, found.high))
    return f"{wording.number(found.value)} ({low} to {high})"


def _lines(found: Crossover, paper: Paper) -> Iterator[str]:
    for line in paper.wrap(headline(found), paper.width):
        yield paper.style(line, "bold")
    yield ""
    names = [side.name for side in found.sides]
    columns = 16
    head = "".join(paper.pad(paper.fit(n, columns), columns, right=True) for n in names)
    yield paper.style(f"  {'batch':>8}{head}   faster in the step, ahead after", "bold")
    for one in found.overtaking[:ROWS]:
        cells = "".join(paper.pad(wording.duration(step_ms(s, one.batch)), columns, right=True) for s in found.sides)
        mark = "*" if one.batch == found.own_batch else " "
        yield f" {mark}{one.batch:>8,}{cells}   " + paper.fit(_told(one), paper.width - 13 - 2 * columns)
    yield ""
    yield paper.style("A step takes a + b x batch (95 % intervals)", "bold")
    for side in found.sides:
        yield from _wrapped(paper, f"  {side.name:<14}", fitted(side))
    yield ""
    yield paper.style("Paid once, and where a step goes at the script's own batch", "bold")
    for side in found.sides:
        yield from _wrapped(paper, f"  {side.name:<14}", once(side))
        yield from _wrapped(paper, " " * 16, goes(side))
    for note in (*found.notes, _measured(found)):
        yield ""
        yield from _wrapped(paper, "Note: ", note)


def _told(one: Overtaking) -> str:
    """A row's end: who is faster, and from which step on ahead in all; only what is certain."""
    if one.speedup.low <= 1 <= one.speedup.high:
        return f"not certain ({one.speedup.value:.2f}x)"
    ahead = span(one.steps) if one.steps is not None and math.isfinite(one.steps.value) else "not known"
    return f"{one.faster} {one.speedup.value:.2f}x, {ahead}"


def _measured(found: Crossover) -> str:
    count = sum(len(side.timings) for side in found.sides)
    return f"{count} processes in {wording.duration(1e3 * found.seconds)}, the two in turn; * is the script's own batch"


def step_ms(side: Side, batch: int) -> float | None:
    mine = [t.step_ms for t in side.timings if t.batch == batch]
    return sum(mine) / len(mine) if mine else None


def fitted(side: Side) -> str:
    if side.fit is None:
        return "too few batches or processes for a line"
    fit = side.fit
    each, unit = fit.per_sample_ms, "ms"
    if abs(each.value) < LEAST_MS:
        each, unit = Range(1e3 * each.value, 1e3 * each.low, 1e3 * each.high), "µs"
    return f"a = {ranged(fit.fixed_ms)} ms, b = {ranged(each)} {unit}, {fit.processes} processes"


def once(side: Side) -> str:
    start = side.start_s
    high = wording.duration(1e3 * start.high) if math.isfinite(start.high) else "?"
    until = f"{wording.duration(1e3 * start.value)} ({wording.duration(1e3 * start.low)} to {high})"
    return f"{until} until the first step, which takes {wording.duration(side.first_ms)}"


def goes(side: Side) -> str:
    parts = sorted(((ms, name) for name, ms in side.parts.items() if ms > 0), reverse=True)
    whole = sum(ms for ms, _ in parts)
    return "of a step: " + ", ".join(f"{name} {wording.share(ms / whole)}" for ms, name in parts) if whole else ""


def _wrapped(paper: Paper, lead: str, text: str) -> Iterator[str]:
    for number, row in enumerate(paper.wrap(text, paper.width - len(lead), 4)):
        yield (lead if number == 0 else " " * len(lead)) + row


def render_json(found: Crossover) -> str:
    return json.dumps(document(found), indent=2, allow_nan=False) + "\n"


def document(found: Crossover) -> dict[str, Any]:
    written: dict[str, Any] = documents.plain(
        {
            "schema": SCHEMA,
            "tool": {"version": __version__},
            "says": headline(found),
            "script": found.script,
            "command": found.command,
            "source_sha256": found.source_sha256,
            "own_batch": found.own_batch,
            "device": found.device or None,
            "winner": found.winner,
            "from_batch": _range(found.batch),
            "sides": [_side(side) for side in found.sides],
            "batches": [
                {
                    "batch": o.batch,
                    "faster": o.faster,
                    "speedup": _range(o.speedup),
                    "ahead_after_steps": _range(o.steps),
                }
                for o in found.overtaking
            ],
            "seconds": found.seconds,
            "notes": found.notes,
        }
    )
    return written


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "measured_on": side.measured_on,
        "start_s": _range(side.start_s),
        "first_step_ms": side.first_ms,
        "fixed_ms": _range(side.fit.fixed_ms) if side.fit else None,
        "per_sample_ms": _range(side.fit.per_sample_ms) if side.fit else None,
        "line_off_share": side.fit.off_share if side.fit else None,
        "parts_ms": side.parts,
        "processes": [
            {"batch": t.batch, "start_s": t.start_s, "first_step_ms": t.first_ms, "step_ms": t.step_ms}
            for t in side.timings
        ],
    }


def _range(found: Range | None) -> dict[str, float] | None:
    """Infinite ends become null: there is none."""
    return {"value": found.value, "low": found.low, "high": found.high} if found is not None else None
