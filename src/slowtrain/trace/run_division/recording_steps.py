"""Finds what a step is in a recording, without any marker by the user.

A step is one iteration of what the run repeats: a Keras training step, a call of the function in which a gradient was
traced, a gradient taken eagerly, else a repeated call of fit or predict, or of any function. In a script that trains
nothing it can also be an element of a data set. The candidate whose steps cover most of the run is chosen. Training
is preferred over inference unless it covers much less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints, distinct_values, median_value
from slowtrain.columns.spans import Event, Spans
from slowtrain.columns.steps import Steps
from slowtrain.model import Place
from slowtrain.recording.reader import Recording
from slowtrain.trace.run_division import step_disturbances, thinned_run

MIN_BREAK_RATIO = 10.0  # times the median gap; a longer gap ends a block of steps
MIN_BREAK_MS = 20.0
MIN_STEPS = 3
MIN_STEADY_STEPS = 2
MIN_CUT_OFF_SHARE = 0.01  # of the steady steps; a smaller share of incomplete steps does not change the mean
MAX_FIRST_SHAPE_STEPS = 2  # steps after warm-up that trace a new shape
USER_LOOP_LANES = ("on_batch", "function", "gradient")  # lanes of calls in the user's own loop
MIN_TRAINING_SHARE = 0.1  # of what the widest candidate covers; below it training is not the run's purpose
ELEMENTS_SOURCE = "elements of a data set"  # source of steps in a script that iterates data sets and trains nothing


class StepCandidate(Struct, frozen=True):
    """One span per step, with the samples in each.

    ``marked``: the epoch ends are known, so that a long gap within an epoch is part of its step (a slow callback) and
    does not end a block.
    """

    source: str
    start_ms: Floats
    end_ms: Floats
    size: Ints
    training: bool
    place: Place | None = None
    weight: float = 1.0
    marked: bool = False
    lane: str = ""
    names: tuple[int, ...] = ()
    piece: Ints | None = None  # for a thinned run: holes before each step
    following_ms: Floats | None = None  # and the start of the next step, which may have been thinned

    def blocks(self, breaks: Floats) -> tuple[Floats, Ints]:
        """Return the end of each step, and the number of its unbroken stretch. No step crosses ``breaks``."""
        start, end = self.start_ms, self.end_ms
        if len(start) < 2:
            return end.copy(), np.zeros(len(start), dtype=np.int64)
        following = start[1:] if self.following_ms is None else self.following_ms
        across = following != start[1:]  # a thinned stretch is between them
        limit = (
            np.inf if self.marked else max(MIN_BREAK_RATIO * float(median_value(following - start[:-1])), MIN_BREAK_MS)
        )
        before = np.searchsorted(breaks, end[:-1])
        is_break = (following - end[:-1] > limit) | (np.searchsorted(breaks, following) > before)
        stop = np.concatenate((np.where(is_break, end[:-1], following), end[-1:]))
        is_break = np.where(across, np.searchsorted(breaks, start[1:]) > before, is_break)
        return stop, np.concatenate(([0], np.cumsum(is_break)))

    def covered_ms(self, breaks: Floats) -> float:
        return float((self.blocks(breaks)[0] - self.start_ms).sum()) if len(self.start_ms) else 0.0


def find_steps(recording: Recording) -> Steps:
    """Return the steps of a recording; an empty ``Steps`` without any."""
    found = [c for c in _all_candidates(recording) if len(c.start_ms) >= MIN_STEPS]
    if not found:
        return Steps()
    if recording.holes:
        found = [_with_holes(recording, c) for c in found]
    breaks = {id(c): _break_moments(recording, c) for c in found}
    best = _best_candidate(found, breaks)
    end, block = best.blocks(breaks[id(best)])
    windowed = touches_windows(recording, best.start_ms, end)
    steady = _steady_steps(recording, best, end, windowed)
    steady = _exclude_disturbed(
        steady, step_disturbances.find_recompilations(recording, best.start_ms, end, best.size, block)
    )
    steps = Steps(best.source, best.start_ms, end, steady, windowed, block, best.size, best.training, best.place)
    if best.piece is not None:
        return thinned_run.thinned_run_steps(steps, best.piece, best.names, recording.holes, recording.start_ns)
    return _without_cut_steps(steps)


def _kept_spans(recording: Recording, lane: str) -> Spans | None:
    """Return a lane's spans without those that were kept from holes."""
    spans = recording.lanes.get(lane)
    if spans is None or not recording.holes:
        return spans
    return spans.where(recording.pieces[lane] >= 0)


def _with_holes(recording: Recording, one: StepCandidate) -> StepCandidate:
    """Return the candidate with the holes between its steps."""
    piece, following = _holes_before(recording, one), one.start_ms[1:].copy()
    for i in np.flatnonzero(np.diff(piece)):
        turns = recording.holes[int(piece[i])].turns
        begun = [(turns[n].first_ns - recording.start_ns) / 1e6 for n in one.names if n in turns]
        if begun:
            following[i] = min(max(min(begun), one.end_ms[i]), following[i])
    return replace(one, piece=piece, following_ms=following)


def _holes_before(recording: Recording, one: StepCandidate) -> Ints:
    """Return how many holes come before each step; for a candidate made of events by the clock alone."""
    spans = recording.lanes.get(one.lane)
    if spans is None:
        ends = np.array([h.end_ns for h in recording.holes], dtype=np.float64)
        return np.searchsorted((ends - recording.start_ns) / 1e6, one.start_ms, side="right").astype(np.int64)
    known = np.flatnonzero(recording.pieces[one.lane] >= 0)
    at = np.searchsorted(spans.start_ms[known], one.start_ms)
    return recording.pieces[one.lane][known[at]]


def _best_candidate(found: list[StepCandidate], breaks: Mapping[int, Floats]) -> StepCandidate:
    """Return the candidate that covers most; training is preferred unless it covers next to nothing."""
    covered = {id(c): c.covered_ms(breaks[id(c)]) for c in found}
    most = max(covered.values())
    trains = [c for c in found if c.training and covered[id(c)] >= MIN_TRAINING_SHARE * most]
    return max(trains or found, key=lambda c: covered[id(c)] * c.weight)


def _break_moments(recording: Recording, one: StepCandidate) -> Floats:
    """Return moments at which an epoch begins or ends, or a validation begins."""
    lanes = ("epoch", "iterator") if one.source == ELEMENTS_SOURCE else ("epoch",)
    moments = [e.start_ms for e in recording.events if e.lane in lanes]
    loops: dict[tuple[str, str], list[Event]] = {}
    for event in recording.events:
        if event.lane == "loop":
            loops.setdefault((event.name, str(event.data.get("site"))), []).append(event)
    for events in loops.values():
        if not _called_in_most_turns(one, events):
            moments += [m for e in events for m in (e.start_ms, e.end_ms)]
    return np.sort(np.array(moments))


def _called_in_most_turns(one: StepCandidate, events: list[Event]) -> bool:
    """Return whether most iterations of the user's loop call this `predict`, which is then a part of the step."""
    if one.lane not in USER_LOOP_LANES or len(one.start_ms) < 2:
        return False
    begun = np.searchsorted(one.start_ms, [e.start_ms for e in events])
    return len(distinct_values(begun[(begun > 0) & (begun < len(one.start_ms))])) > 0.5 * (len(one.start_ms) - 1)


def _all_candidates(recording: Recording) -> list[StepCandidate]:
    return [
        *_keras_candidates(recording),
        *_on_batch_candidates(recording),
        *_function_candidates(recording),
        *_gradient_candidates(recording),
        *_loop_call_candidates(recording),
        *_element_candidates(recording),
    ]


def _element_candidates(recording: Recording) -> list[StepCandidate]:
    """Candidates from elements that the script takes from a data set, by the requesting line.

    Empty if anything trains, even for two steps, because elements are then not the run's purpose.
    """
    spans = _kept_spans(recording, "next")
    if spans is None or _anything_trained(recording):
        return []
    spans = spans.where(spans.thread == recording.main)
    found = []
    for number in distinct_values(spans.name):
        place = recording.names[int(number)].place
        mine = spans.where(spans.name == number)
        if place is not None:  # else Keras requests them
            found.append(_span_candidate(ELEMENTS_SOURCE, "next", mine, np.zeros_like(mine.name), False, place, 0.5))
    return found


def _anything_trained(recording: Recording) -> bool:
    """Return whether anything trained, even for a step or two."""
    named = {
        lane: {recording.names[int(n)].text for n in distinct_values(s.name)} for lane, s in recording.lanes.items()
    }
    traced = any(e.lane == "trace" and e.data.get("training") for e in recording.events)
    return traced or "gradient" in named or any("train" in named.get(lane, ()) for lane in ("step", "on_batch"))


def _keras_candidates(recording: Recording) -> list[StepCandidate]:
    spans = _kept_spans(recording, "step")
    if spans is None:
        return []
    texts = np.array([n.text for n in recording.names])[spans.name]
    fits = [e for e in recording.events if e.lane == "loop" and not e.data.get("nested")]
    found = []
    for phase, loop in (("train", "fit"), ("predict", "predict"), ("test", "evaluate")):
        mine = spans.where(texts == phase)
        inside = [e for e in fits if e.name == loop]
        if len(mine) and inside:
            low, high = np.array([e.start_ms for e in inside]), np.array([e.end_ms for e in inside])
            mine = mine.where(intervals.containing_range(low, high, mine.start_ms) >= 0)
        elif len(mine) and loop != "fit":
            continue
        training = phase == "train"
        place = inside[0].place if inside else None
        # Without a fit the training step was called by train_on_batch, which is another candidate.
        if inside and len(mine):
            size = np.full(len(mine), _fit_batch_size(inside[0]) * batches_per_execution(inside[0]), dtype=np.int64)
            one = _span_candidate(loop, "step", mine, size, training, place, 3.0 if training else 0.9)
            found.append(replace(one, marked=True))
    return found


def _span_candidate(
    source: str, lane: str, spans: Spans, size: Ints, training: bool, place: Place | None, weight: float
) -> StepCandidate:
    names = tuple(int(n) for n in distinct_values(spans.name))
    return StepCandidate(source, spans.start_ms, spans.end_ms, size, training, place, weight, lane=lane, names=names)


def _fit_batch_size(fit: Event) -> int:
    """Return the samples per step from the arguments of ``fit``; Keras' default for arrays is 32. 0 if unknown."""
    batch_size = fit.data.get("batch_size")
    shape = (fit.data.get("data") or {}).get("shape")
    if batch_size:
        return int(min(batch_size, shape[0])) if shape and shape[0] else int(batch_size)
    return int(min(32, shape[0])) if shape and shape[0] else 0


def batches_per_execution(fit: Event) -> int:
    """Return the batches that one step of ``fit`` trains on: ``steps_per_execution`` if it is a number, else 1."""
    steps = fit.data.get("steps_per_execution")
    return max(int(steps), 1) if isinstance(steps, (int, float)) else 1


def _on_batch_candidates(recording: Recording) -> list[StepCandidate]:
    spans = _kept_spans(recording, "on_batch")
    if spans is None:
        return []
    found = []
    texts = np.array([n.text for n in recording.names])[spans.name]
    for phase in ("train", "predict", "test"):
        mine = spans.where(texts == phase)
        if len(mine):
            place = recording.names[int(mine.name[0])].place
            training = phase == "train"
            weight = 3.0 if training else 1.0
            found.append(_span_candidate(f"{phase}_on_batch", "on_batch", mine, mine.value, training, place, weight))
    return found


def _function_candidates(recording: Recording) -> list[StepCandidate]:
    """Candidates from calls of each tf.function outside Keras' loops.

    Functions created repeatedly on one line count as one.
    """
    spans = _kept_spans(recording, "function")
    if spans is None:
        return []
    spans = spans.where(spans.thread == recording.main)
    # For functions that were traced before the recording began, the name's detail says so.
    details = [e.data for e in recording.events if e.lane == "trace"]
    details += [n.detail for n in recording.names if n.lane == "function"]
    training = {(about.get("file"), about.get("line")) for about in details if about.get("training")}
    groups: dict[tuple[object, object], list[int]] = {}
    for number in distinct_values(spans.name):
        detail = recording.names[int(number)].detail
        if detail.get("site"):
            groups.setdefault((detail.get("file"), detail.get("line")), []).append(int(number))
    found = []
    for key, numbers in groups.items():
        mine = spans.where(np.isin(spans.name, numbers))
        name = recording.names[numbers[0]]
        trains = key in training
        source = f"function {name.text.rpartition('.')[2]}"
        found.append(_span_candidate(source, "function", mine, mine.value, trains, name.place, 2.5 if trains else 0.9))
    return found


def _gradient_candidates(recording: Recording) -> list[StepCandidate]:
    spans = _kept_spans(recording, "gradient")
    if spans is None:
        return []
    spans = spans.where(spans.thread == recording.main)
    if not len(spans):
        return []
    # Several gradients per step (as in a GAN) come from several lines: the first line counts the steps.
    mine = spans.where(spans.name == spans.name[0])
    place = recording.names[int(mine.name[0])].place
    return [_span_candidate("gradient", "gradient", mine, np.zeros_like(mine.name), True, place, 2.4)]


def _loop_call_candidates(recording: Recording) -> list[StepCandidate]:
    """Candidates from repeated calls of fit, evaluate or predict on one line: then a call is the step."""
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in recording.events:
        if event.lane == "loop" and not event.data.get("nested") and event.data.get("site"):
            groups.setdefault((event.name, str(event.data["site"])), []).append(event)
    found = []
    for (loop, _), events in groups.items():
        if len(events) < 8:
            continue
        start, end = np.array([e.start_ms for e in events]), np.array([e.end_ms for e in events])
        shapes = [(e.data.get("data") or {}).get("shape") for e in events]
        size = np.array([int(shape[0]) if shape and shape[0] else 0 for shape in shapes], dtype=np.int64)
        found.append(StepCandidate(f"{loop}()", start, end, size, loop == "fit", events[0].place, 1.0))
    return found


def touches_windows(recording: Recording, start: Floats, end: Floats) -> Bools:
    """Return which stretches overlap a recorder window or a stop of the process."""
    inside = intervals.covered_length(step_disturbances.stopped_times(recording.events), start, end) > 0
    for event in recording.events:
        if event.lane == "window":
            inside |= (end > event.start_ms) & (start < event.end_ms)
    return inside


def _without_cut_steps(steps: Steps) -> Steps:
    """Make the last step of each unbroken stretch not steady, if these steps change the mean.

    It ends with its call, without the following wait for a batch, so that it is incomplete.
    """
    whole = np.append(steps.block[1:] == steps.block[:-1], False)
    whole_steady = steps.steady & whole
    if MIN_STEADY_STEPS <= whole_steady.sum() < (1 - MIN_CUT_OFF_SHARE) * steps.steady.sum():
        return replace(steps, steady=whole_steady, edge=steps.steady & ~whole)
    return steps


def _exclude_disturbed(steady: Bools, disturbed: Bools) -> Bools:
    """Return the steady steps that are not disturbed, if enough remain."""
    rest = steady & ~disturbed
    return rest if rest.sum() >= MIN_STEADY_STEPS else steady


def _steady_steps(recording: Recording, best: StepCandidate, end: Floats, windowed: Bools) -> Bools:
    """Return which steps are after warm-up and outside windows.

    Warm-up ends two steps after the first traces. One or two later steps that trace have a new shape, such as an
    epoch's last batch. More than that is retracing.
    """
    n = len(end)
    once = np.zeros(n, dtype=bool)
    warm = min(2, max(n - MIN_STEPS, 0))
    traces = np.array([e.start_ms for e in recording.events if e.lane == "trace"])
    if len(traces):
        traced = np.searchsorted(np.sort(traces), end) > np.searchsorted(np.sort(traces), best.start_ms)
        early = np.flatnonzero(traced[: max(3, n // 20)])
        if len(early):
            warm = max(warm, min(int(early[-1]) + 2, n - MIN_STEADY_STEPS))
        later = np.flatnonzero(traced & (np.arange(n) >= warm))
        once[later] = len(later) <= MAX_FIRST_SHAPE_STEPS
    steady = (np.arange(n) >= max(warm, 0)) & ~once
    return _exclude_disturbed(steady, windowed)
