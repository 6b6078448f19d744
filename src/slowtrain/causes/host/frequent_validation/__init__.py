"""Validation or checkpointing takes a large part of the run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.arrays import distinct_values, median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import line_roles, source_places
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import checkpoint_time
from slowtrain.trace.signals.host.host_work import is_in_callback, starts_in_windows, starts_within
from slowtrain.whatif import Remedy, Skip

MIN_PASSES = 3  # passes over the validation data in one run
MIN_WORK_SHARE = 0.3  # of a predict call is the model's work if it goes over a data set
MIN_CALLS_OF_PASS = 3
MAX_PASSES_PER_STEP = 0.7
KEPT_TIME_SHARE = 0.1  # of the training time that validation may take with the cure
KEPT_PASSES = 2  # at least: one during training, one at the end


class Validation(Struct, frozen=True):
    """Passes over validation data or checkpoints, and the training between them."""

    passes: int
    ms: float
    training_ms: float
    places: tuple[Place, ...]
    are_checkpoints: bool = False

    @property
    def each_ms(self) -> float:
        return self.ms / self.passes

    @property
    def rarer(self) -> int:
        """How many times less often the cure validates."""
        return max(int(np.ceil(self.passes / max(KEPT_TIME_SHARE * self.training_ms / self.each_ms, KEPT_PASSES))), 2)


class FrequentValidation(Cause[Validation]):
    """Validation, or saving checkpoints by hand, takes a large part of the run."""

    title = "Validation or checkpointing takes a large part of the run"
    lines_shared_as = "save"
    needs = frozenset({Signal.PHASES, Signal.CALLS, Signal.STEPS})
    scope = "run"
    words = ("validation_data", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> Validation | None:
        found = _costliest_validation(trace)
        if found is None:
            return None
        return replace(found, places=source_places.merge_places(self.lines_to_change(trace, found), found.places))

    def evidence(self, trace: Trace, finding: Validation) -> Evidence:
        what = "checkpoints" if finding.are_checkpoints else "validations"
        return Evidence(
            f"{finding.passes} {what} of {format_number(finding.each_ms)} ms take "
            f"{format_number(finding.ms / 1e3, 2)} s, "
            f"the training between them {format_number(finding.training_ms / 1e3, 2)} s",
            {
                "passes": float(finding.passes),
                "pass_ms": finding.each_ms,
                "validation_ms": finding.ms,
                "training_ms": finding.training_ms,
            },
            finding.places,
        )

    def remedies(self, trace: Trace, finding: Validation) -> Sequence[Remedy]:
        kept = max(KEPT_TIME_SHARE * finding.training_ms, KEPT_PASSES * finding.each_ms)
        saved = max(finding.ms - kept, 0.0)
        # The user decides how often is enough. The range is from half as often to once.
        return [Skip(saved, spread=(0.6, min(finding.ms / max(saved, 1e-9), 1.2)))]


def _costliest_validation(trace: Trace) -> Validation | None:
    if not len(trace.steps):
        return None
    ways = [
        (
            way(trace),
            MIN_PASSES if way is _validation_in_fit else checkpoint_time.MIN_CHECKPOINTS,
            checkpoint_time.MIN_CHECKPOINT_SHARE,
        )
        for way in (_validation_in_fit, _validation_by_script, _validation_by_function)
    ]
    ways.append(
        (_checkpoint_passes(trace), checkpoint_time.MIN_CHECKPOINTS, checkpoint_time.checkpoint_share_limit(trace))
    )
    candidates = [v for v, least, share in ways if v is not None and v.passes >= least and v.ms > share * v.training_ms]
    return max(candidates, key=lambda v: v.ms) if candidates else None


def _validation_in_fit(trace: Trace) -> Validation | None:
    """Validation that `fit` runs, without what callbacks call (host/heavy-callback)."""
    passes = [e for e in trace.events_of("loop") if e.name == "evaluate" and e.data.get("nested")]
    passes = _without_tracing(trace, [e for e in passes if not is_in_callback(trace, e)])
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    fits = [f for f in fits if any(f.start_ms <= p.start_ms <= f.end_ms for p in passes)]
    if not passes:
        return None
    spent = _total_by_median_ms(passes)
    training = sum(f.ms for f in fits) - sum(p.ms for p in passes) - _tracing_ms(trace, fits)
    places = tuple(dict.fromkeys(f.place for f in fits if f.place is not None))
    return Validation(len(passes), spent, max(training, 1e-9), places)


def _validation_by_script(trace: Trace) -> Validation | None:
    """`evaluate` or `predict` that the script calls repeatedly between training steps."""
    best: Validation | None = None
    lines: dict[str, list[Event]] = {}
    for event in trace.events_of("loop"):
        if event.name in ("evaluate", "predict") and not event.data.get("nested") and event.data.get("site"):
            # Scoring each of several models in one line is not repeated validation.
            lines.setdefault(f"{event.name}{event.data['site']}{event.data.get('model')}", []).append(event)
    for several in lines.values():
        passes = _without_tracing(trace, several)
        if passes and passes[0].name == "predict" and _work_share(trace, passes) < MIN_WORK_SHARE:
            continue  # for a few rows the call itself takes the time
        between = [_steps_between(trace, a.end_ms, b.start_ms) for a, b in pairwise(passes)]
        if len(passes) < MIN_PASSES or median_value(between) < 1:
            continue
        training = _training_ms(trace, passes) * len(passes) / max(len(passes) - 1, 1)
        place = passes[0].place
        found = Validation(len(passes), _total_by_median_ms(passes), max(training, 1e-9), (place,) if place else ())
        best = found if best is None or found.ms > best.ms else best
    return best


def _validation_by_function(trace: Trace) -> Validation | None:
    """Bursts of calls of a function that takes no gradient, between training steps of a hand-written loop.

    A policy that acts between steps is called once at a time, or for one sample, which is not a burst over a data set.
    """
    calls = trace.lane("function")
    calls = calls.where((calls.thread == trace.main) & ~starts_in_windows(trace, calls))
    own = [e for e in trace.events_of("trace") if not e.data.get("keras")]
    training = {e.data.get("number") for e in own if e.data.get("training")}
    numbers = np.array([n.detail.get("number") if n.lane == "function" else None for n in trace.names], dtype=object)
    trains = np.isin(calls.name, [i for i, n in enumerate(numbers) if n in training and n is not None])
    steps = calls.where(trains)
    best: Validation | None = None
    for number in distinct_values(calls.name[~trains]) if len(steps) > MIN_PASSES else ():
        name, mine = trace.names[int(number)], calls.where(calls.name == number)
        if name.place is None or median_value(mine.value) < 2:
            continue
        after = np.searchsorted(steps.start_ms, mine.start_ms)
        bursts, first, count = np.unique(after, return_index=True, return_counts=True)
        if len(bursts) < MIN_PASSES or median_value(count) < MIN_CALLS_OF_PASS:
            continue
        if len(bursts) > MAX_PASSES_PER_STEP * len(steps):
            continue
        # A burst before the first step makes training data. Scoring each of several models is not repeated validation.
        if bursts[0] == 0 or _is_of_another_model(trace, name.place):
            continue
        spent = float((mine.end_ms[first + count - 1] - mine.start_ms[first]).sum())
        gaps = np.delete(np.diff(steps.start_ms), np.clip(bursts - 1, 0, len(steps) - 2))
        training_ms = float(median_value(gaps)) * len(steps) if len(gaps) else 0.0
        found = Validation(len(bursts), spent, max(training_ms, 1e-9), (name.place,))
        best = found if best is None or found.ms > best.ms else best
    return best


def _is_of_another_model(trace: Trace, place: Place) -> bool:
    step, text = trace.steps.place, recorded_source(trace, place.file)
    return (
        step is not None
        and text is not None
        and step.file == place.file
        and line_roles.resets_weights(text, step.line, place.line)
    )


def _checkpoint_passes(trace: Trace) -> Validation | None:
    """Checkpoints that the script itself writes between steps."""
    found = checkpoint_time.find_checkpoints(trace)
    if found is None or found.passes < MIN_PASSES:
        return None
    return Validation(found.passes, found.ms, found.training_ms, found.places, are_checkpoints=True)


def _without_tracing(trace: Trace, passes: list[Event]) -> list[Event]:
    """The passes that did not trace."""
    traces = [e.start_ms for e in trace.events_of("trace")]
    return [p for p in passes if not any(p.start_ms <= t <= p.end_ms for t in traces)]


def _total_by_median_ms(passes: list[Event]) -> float:
    """The number of passes times their median, because a profiler window may lengthen one of them."""
    return float(median_value([p.ms for p in passes])) * len(passes)


def _tracing_ms(trace: Trace, fits: list[Event]) -> float:
    """Tracing and profiler windows inside ``fits``."""
    ms = 0.0
    for lane in ("trace", "window"):
        for event in trace.events_of(lane):
            ms += event.ms if any(f.start_ms <= event.start_ms <= f.end_ms for f in fits) else 0.0
    return ms


def _work_share(trace: Trace, passes: list[Event]) -> float:
    calls = trace.lane("function")
    return float(calls.ms[starts_within(calls, passes)].sum()) / max(sum(p.ms for p in passes), 1e-9)


def _steps_between(trace: Trace, start_ms: float, end_ms: float) -> int:
    trained = trace.lane("on_batch").start_ms if not trace.steps.training else trace.steps.start_ms
    low, high = np.searchsorted(trained, (start_ms, end_ms))
    return int(high - low)


def _training_ms(trace: Trace, passes: list[Event]) -> float:
    """Time from the first pass to the end of the last, without the passes, profiler windows and tracing."""
    start, end = passes[0].start_ms, passes[-1].end_ms
    others = [e for lane in ("trace", "window") for e in trace.events_of(lane) if start <= e.start_ms < end]
    return max(end - start - sum(p.ms for p in passes) - sum(e.ms for e in others), 0.0)
