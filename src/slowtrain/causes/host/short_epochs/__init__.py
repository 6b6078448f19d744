"""Epochs of few steps: most of the time goes into starting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.causes.host.short_epochs import fix
from slowtrain.columns.array_statistics import median_value, unique_values
from slowtrain.columns.arrays import Floats, Ints
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    distinct_places,
    is_in_callback,
    is_outermost,
    main_thread,
    starts_in_windows,
    starts_within,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Skip

LASTING = "let one iterator last for all epochs: fit(ds.repeat(), steps_per_epoch=len(ds)); in a loop, ds.repeat(n)"
LEAST = 20  # turns from one epoch to the next: of fewer epochs few can be saved


@dataclass(frozen=True)
class Turns:
    """From the last step of an epoch to the first of the next: how often, and ms of a usual one.

    ``making_ms`` of it an iterator over the training data is made; ``around_ms`` more are nobody's but Keras's own.
    ``epoch_steps`` and ``steps_ms`` are an epoch's.
    """

    count: float
    making_ms: float
    around_ms: float
    epoch_steps: float
    steps_ms: float
    places: tuple[Place, ...]


class ShortEpochs(Cause[Evidence]):
    """Epochs are so short that starting the next one takes a large part of the run."""

    title = "epochs of few steps: most of the time goes into starting them"
    needs = frozenset({Signal.STEPS, Signal.PHASES, Signal.CALLS})
    scope = "run"
    words = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> Evidence | None:
        found = trace.once(_turns)
        if found is None:
            return None
        return Evidence(
            f"after each epoch ({format_number(found.epoch_steps)} step{'s' * (found.epoch_steps > 1)} in "
            f"{format_number(found.steps_ms)} ms) a new iterator is made "
            f"in {format_number(found.making_ms)} ms, {format_number(found.count)} times: "
            f"{format_number(found.count * found.making_ms / 1e3)} s of the run",
            {
                "epochs": found.count + 1,
                "epoch_steps": found.epoch_steps,
                "epoch_steps_ms": found.steps_ms,
                "making_ms": found.making_ms,
                "around_ms": found.around_ms,
            },
            found.places,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = trace.once(_turns)
        if found is None:
            return []
        # Around it Keras tears down the old iterator, which goes, too, and sums up the epoch, which takes a ms or two.
        most = found.making_ms + found.around_ms
        return [Skip(found.count * most, spread=(0.9 * found.making_ms / most, 1.0))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        changed = measured.first(trace, evidence.where, fix.repeated)
        yield Prescription("edit", Effect.EQUIVALENT, LASTING, edits=changed)


def _turns(trace: Trace) -> Turns | None:
    """None where there are too few, or where an epoch is not over after its steps."""
    steps, thread = trace.steps, main_thread(trace)
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    made = trace.lane("iterator")
    made = made.where((made.thread == thread) & ~starts_in_windows(trace, made))
    made = made.where(~starts_within(made, [e for e in trace.events_of("loop") if e.name != "fit"]))  # of validation
    made = made.where(is_outermost(made))
    if len(made) < LEAST or len(steps) < LEAST:
        return None
    at = np.searchsorted(steps.start_ms, made.start_ms, side="right") - 1
    between = (at >= 0) & (at < len(steps) - 1) & (made.start_ms >= steps.end_ms[at])
    turns = unique_values(at[between])
    call = np.searchsorted(np.array([e.start_ms for e in fits]), steps.start_ms, side="right")
    turns = turns[call[turns] == call[turns + 1]]
    if len(turns) < LEAST:
        return None
    making = np.bincount(at[between], made.ms[between], minlength=len(steps))[turns]
    around = steps.start_ms[turns + 1] - steps.end_ms[turns] - making - _other_ms(trace, turns)
    # Of a thinned run only some stretches are here.
    times = steps.whole.count / max(int(steps.steady.sum()), 1) if steps.whole is not None else 1.0
    epoch, making_ms = float(median_value(np.diff(turns))), float(median_value(making))
    # In a loop of one's own the rest is the user's. Tearing down takes no longer than making: what does is not known.
    around_ms = min(max(float(median_value(around)), 0.0), making_ms) if fits else 0.0
    usual = steps.steady if steps.steady.any() else np.ones(len(steps), dtype=bool)
    places = [e.place for e in fits] if fits else [steps.place]
    return Turns(
        count=len(turns) * times,
        making_ms=making_ms,
        around_ms=around_ms,
        epoch_steps=epoch,
        steps_ms=epoch * float(median_value(steps.ms[usual])),
        places=distinct_places(places),
    )


def _other_ms(trace: Trace, turns: Ints) -> Floats:
    """Of each turn the time of callbacks, and of validation outside them."""
    steps = trace.steps
    hooks = trace.lane("callback")
    hooks = hooks.where((hooks.thread == main_thread(trace)) & is_outermost(hooks))
    nested = [e for e in trace.events_of("loop") if e.name != "fit" and e.data.get("nested")]
    nested = [e for e in nested if not is_in_callback(trace, e)]
    start = np.concatenate((hooks.start_ms, [e.start_ms for e in nested]))
    ms = np.concatenate((hooks.ms, [e.ms for e in nested]))
    at = np.searchsorted(steps.start_ms, start, side="right") - 1
    between = (at >= 0) & (start >= steps.end_ms[np.maximum(at, 0)])
    return np.asarray(np.bincount(at[between], ms[between], minlength=len(steps))[turns])
