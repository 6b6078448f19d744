"""Epochs of few steps: most of the time goes into starting them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats, Ints, distinct_values, median_value
from slowtrain.model import Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    distinct_places,
    is_in_callback,
    is_outermost,
    starts_in_windows,
    starts_within,
)
from slowtrain.whatif import Remedy, Skip

MIN_EPOCH_STARTS = 20  # fewer epochs save little


class EpochStarts(Struct, frozen=True):
    """The time between the last step of an epoch and the first of the next, by the usual one."""

    count: float
    making_ms: float  # an iterator over the training data is created
    around_ms: float  # Keras' own work
    epoch_steps: float  # steps of one epoch
    steps_ms: float  # their time
    places: tuple[Place, ...]


class ShortEpochs(Cause[EpochStarts]):
    """Epochs are so short that starting the next one takes a large part of the run."""

    title = "Starting epochs of few steps takes a large part of the run"
    needs = frozenset({Signal.STEPS, Signal.PHASES, Signal.CALLS})
    scope = "run"
    words = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> EpochStarts | None:
        return _epoch_starts(trace)

    def evidence(self, trace: Trace, finding: EpochStarts) -> Evidence:
        return Evidence(
            f"after each epoch ({format_number(finding.epoch_steps)} step{'s' * (finding.epoch_steps > 1)} in "
            f"{format_number(finding.steps_ms)} ms) a new iterator is created "
            f"in {format_number(finding.making_ms)} ms, {format_number(finding.count)} times: "
            f"{format_number(finding.count * finding.making_ms / 1e3)} s of the run",
            {
                "epochs": finding.count + 1,
                "epoch_steps": finding.epoch_steps,
                "epoch_steps_ms": finding.steps_ms,
                "making_ms": finding.making_ms,
                "around_ms": finding.around_ms,
            },
            finding.places,
        )

    def remedies(self, trace: Trace, finding: EpochStarts) -> Sequence[Remedy]:
        # Keras' own work is to tear down the old iterator, which is saved, and to end the epoch, a ms or two.
        most = finding.making_ms + finding.around_ms
        return [Skip(finding.count * most, spread=(0.9 * finding.making_ms / most, 1.0))]


def _epoch_starts(trace: Trace) -> EpochStarts | None:
    """The starts of epochs; None if there are too few, or if an epoch does not end with its steps."""
    steps, thread = trace.steps, trace.main
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    made = trace.lane("iterator")
    made = made.where((made.thread == thread) & ~starts_in_windows(trace, made))
    made = made.where(~starts_within(made, [e for e in trace.events_of("loop") if e.name != "fit"]))  # of validation
    made = made.where(is_outermost(made))
    if len(made) < MIN_EPOCH_STARTS or len(steps) < MIN_EPOCH_STARTS:
        return None
    at = np.searchsorted(steps.start_ms, made.start_ms, side="right") - 1
    between = (at >= 0) & (at < len(steps) - 1) & (made.start_ms >= steps.end_ms[at])
    ends = distinct_values(at[between])
    call = np.searchsorted(np.array([e.start_ms for e in fits]), steps.start_ms, side="right")
    ends = ends[call[ends] == call[ends + 1]]
    if len(ends) < MIN_EPOCH_STARTS:
        return None
    making = np.bincount(at[between], made.ms[between], minlength=len(steps))[ends]
    around = steps.start_ms[ends + 1] - steps.end_ms[ends] - making - _callback_and_validation_ms(trace, ends)
    # A thinned recording contains only parts of the run.
    times = steps.whole.count / max(int(steps.steady.sum()), 1) if steps.whole is not None else 1.0
    epoch, making_ms = float(median_value(np.diff(ends))), float(median_value(making))
    # In a hand-written loop the rest is the user's code. Tearing down takes at most as long as creating; time beyond
    # that has unknown reasons.
    around_ms = min(max(float(median_value(around)), 0.0), making_ms) if fits else 0.0
    usual = steps.steady if steps.steady.any() else np.ones(len(steps), dtype=bool)
    places = [e.place for e in fits] if fits else [steps.place]
    return EpochStarts(
        count=len(ends) * times,
        making_ms=making_ms,
        around_ms=around_ms,
        epoch_steps=epoch,
        steps_ms=epoch * float(median_value(steps.ms[usual])),
        places=distinct_places(places),
    )


def _callback_and_validation_ms(trace: Trace, iteration_counts: Ints) -> Floats:
    """Time of callbacks, and of validation outside them, at each epoch start."""
    steps = trace.steps
    hooks = trace.lane("callback")
    hooks = hooks.where((hooks.thread == trace.main) & is_outermost(hooks))
    nested = [e for e in trace.events_of("loop") if e.name != "fit" and e.data.get("nested")]
    nested = [e for e in nested if not is_in_callback(trace, e)]
    start = np.concatenate((hooks.start_ms, [e.start_ms for e in nested]))
    ms = np.concatenate((hooks.ms, [e.ms for e in nested]))
    at = np.searchsorted(steps.start_ms, start, side="right") - 1
    between = (at >= 0) & (start >= steps.end_ms[np.maximum(at, 0)])
    return np.asarray(np.bincount(at[between], ms[between], minlength=len(steps))[iteration_counts])
