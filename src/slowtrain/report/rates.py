"""Losses at other learning rates and with other batches, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from slowtrain import __version__
from slowtrain.model.learning_rates import BatchSweep, RateGain, RatePoint, RateSweep
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
    if sweep.gain.warm_up_steps:
        after = f"after a warm-up of {format_count(sweep.gain.warm_up_steps, 'step')}"
        return f"learning rate {own} needs fewer steps {after}: {gain_text(sweep.gain, 'without it')}"
    return f"learning rate {_rate_number(sweep.gain.rate)} needs fewer steps than {own}: {gain_text(sweep.gain)}"


def gain_text(gain: RateGain, otherwise: str = "at the script's own rate") -> str:
    """How many times as many steps are needed ``otherwise``, with the interval."""
    times = f"{format_number(gain.times, 2)} times as many {otherwise}"
    if gain.at_least or gain.high is None:
        return f"at least {times} (over {format_number(gain.low, 2)} in {format_count(gain.pairs, 'pair')} of runs)"
    return f"{times} ({_interval(gain.low, gain.high, gain.pairs)})"


def batch_headline(batches: BatchSweep) -> str:
    own, gain = f"{batches.batch:,}", batches.gain
    if not batches.complete:
        return f"it is not known whether another batch than {own} needs fewer seconds, because the time ended"
    if gain is None:
        return f"no other batch than {own} needs clearly fewer seconds"
    times = f"{format_number(gain.times, 2)} times as many with the script's own batch"
    samples = f"{format_number(gain.samples_times, 2)} times the samples"
    return (
        f"a batch of {gain.batch:,} with learning rate {_rate_number(gain.rate)} needs fewer seconds than {own}, and "
        f"{samples}: {times} ({_interval(gain.low, gain.high, gain.pairs)})"
    )


def _interval(low: float, high: float, pairs: int) -> str:
    ends = f"{format_number(low, 2)} to {format_number(high, 2)}"
    return f"95 %: {ends}, {format_count(pairs, 'pair')} of runs with other seeds"


def _rate_lines(sweep: RateSweep, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", rate_headline(sweep), style="bold")
    yield ""
    to_loss = f"steps to {format_number(sweep.loss, 3)}" if sweep.loss is not None else "steps"
    yield f"{'rate':>10} {'loss at the end':>16} {to_loss:>18}"
    for point in sweep.points:
        mark = " now" if is_own_rate(sweep, point) else ""
        mark = f" after a warm-up of {point.warm_up_steps}" if point.warm_up_steps else mark
        steps = f"{point.steps:,}" if point.steps is not None else f"over {sweep.steps:,}"
        yield f"{_rate_number(point.rate):>10} {_loss_text(point.loss):>16} {steps:>18}{mark}"
    yield ""
    if sweep.batches is not None:
        yield from _batch_lines(sweep, sweep.batches, out)
    measured = (
        f"one process for each rate, {format_count(sweep.steps, 'step')} each with the same seed and samples; "
        f"{sweep.place} was edited in memory; the loss at the end is the mean of the last tenth"
    )
    yield from out.hanging("Measured: ", measured)
    if sweep.gain is not None or (sweep.batches is not None and sweep.batches.gain is not None):
        yield from out.hanging("Note: ", CHANGES_TRAINING)
    for note in sweep.notes:
        yield from out.hanging("Note: ", note)


def _batch_lines(sweep: RateSweep, batches: BatchSweep, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", batch_headline(batches), style="bold")
    yield ""
    goal = format_number(batches.loss, 3) if batches.loss is not None else "the loss"
    yield f"{'batch':>10} {'rate':>10} {'loss':>10} {f'samples to {goal}':>18} {f'seconds to {goal}':>18}"
    for point in batches.points:
        mark = " now" if point.batch == batches.batch and _is_same_rate(point.rate, sweep.rate) else ""
        samples = f"{point.samples:,}" if point.samples is not None else f"over {point.taken:,}"
        seconds = format_number(point.seconds, 3) if point.seconds is not None else "-"
        loss = "-" if point.loss is None and point.taken else _loss_text(point.loss)
        yield f"{point.batch:>10,} {_rate_number(point.rate):>10} {loss:>10} {samples:>18} {seconds:>18}{mark}"
    yield ""
    says = (
        "with a larger batch, steps are fewer and longer, so samples and seconds of training are compared; the rate of "
        f"{_rate_number(batches.rate)} was scaled {batches.scaling}; the loss is that after as many samples as with "
        f"a batch of {batches.batch:,}"
    )
    yield from out.hanging("Batches: ", says)


def _loss_text(loss: float | None) -> str:
    return format_number(loss, 4) if loss is not None else "not finite"


def is_own_rate(sweep: RateSweep, point: RatePoint) -> bool:
    return _is_same_rate(point.rate, sweep.rate) and not point.warm_up_steps


def _is_same_rate(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-3 * other  # rates are written with three digits


def _rate_number(rate: float) -> str:
    return f"{rate:.3g}"


def rate_json(sweep: RateSweep) -> str:
    about: dict[str, Any] = {"schema": RATE_SCHEMA, "slowtrain": __version__, **asdict(sweep)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"
