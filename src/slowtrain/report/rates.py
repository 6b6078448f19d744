"""Losses at other learning rates, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from slowtrain import __version__
from slowtrain.model.measurements import RateGain, RatePoint, RateSweep
from slowtrain.number_text import format_count, format_number
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

RATE_SCHEMA = "slowtrain.rate/1"
CHANGES_TRAINING = (
    "another rate changes training: the weights become others, and a rate that is faster here may end at a higher "
    "loss. Look at the loss of the whole run"
)


def rate_text(sweep: RateSweep, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    return joined_lines(_rate_lines(sweep, Terminal(readable_width(width), colour, unicode)))


def rate_headline(sweep: RateSweep) -> str:
    own = _rate_number(sweep.rate)
    if not sweep.complete:
        return f"it is not known whether another learning rate is better than {own}, because the time ended"
    if sweep.gain is None:
        return f"no other learning rate is clearly better than {own} in {format_count(sweep.steps, 'step')}"
    return f"learning rate {_rate_number(sweep.gain.rate)} needs fewer steps than {own}: {gain_text(sweep.gain)}"


def gain_text(gain: RateGain) -> str:
    """How many times as many steps the script's own rate needs, with its interval."""
    times = f"{format_number(gain.times, 2)} times as many at the script's own rate"
    if gain.at_least or gain.high is None:
        return f"at least {times} (over {format_number(gain.low, 2)} in {format_count(gain.pairs, 'pair')} of runs)"
    ends = f"{format_number(gain.low, 2)} to {format_number(gain.high, 2)}"
    return f"{times} (95 %: {ends}, {format_count(gain.pairs, 'pair')} of runs with other seeds)"


def _rate_lines(sweep: RateSweep, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", rate_headline(sweep), style="bold")
    yield ""
    to_loss = f"steps to {format_number(sweep.loss, 3)}" if sweep.loss is not None else "steps"
    yield f"{'rate':>10} {'loss at the end':>16} {to_loss:>18}"
    for point in sweep.points:
        mark = " now" if is_own_rate(sweep, point) else ""
        loss = format_number(point.loss, 4) if point.loss is not None else "not finite"
        steps = f"{point.steps:,}" if point.steps is not None else f"over {sweep.steps:,}"
        yield f"{_rate_number(point.rate):>10} {loss:>16} {steps:>18}{mark}"
    yield ""
    measured = (
        f"one process for each rate, {format_count(sweep.steps, 'step')} each with the same seed and samples; "
        f"{sweep.place} was edited in memory; the loss at the end is the mean of the last tenth"
    )
    yield from out.hanging("Measured: ", measured)
    if sweep.gain is not None:
        yield from out.hanging("Note: ", CHANGES_TRAINING)
    for note in sweep.notes:
        yield from out.hanging("Note: ", note)


def is_own_rate(sweep: RateSweep, point: RatePoint) -> bool:
    return abs(point.rate - sweep.rate) <= 1e-3 * sweep.rate


def _rate_number(rate: float) -> str:
    return f"{rate:.3g}"


def rate_json(sweep: RateSweep) -> str:
    about: dict[str, Any] = {"schema": RATE_SCHEMA, "slowtrain": __version__, **asdict(sweep)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"
