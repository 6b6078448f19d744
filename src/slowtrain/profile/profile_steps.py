"""The steps of a profile: from the framework's marks, else from the repetition of the program itself.

The methods are tried in order of reliability, and ``source`` names the one that was used. If nothing is marked and
nothing repeats, there are no steps: the whole profile is one stretch, and ``source`` is empty.

A device's own mark covers the first to the last work that the profiler assigned to the step. The callback that ends
the profile often starts a tiny op after its Python code, and that op counts as work of the last step. The mark then
covers the whole callback. In one project 89 of 107 published profiles had such a mark, 2 to 11 times too long.

A device may be behind its host, which has already called the next steps: JAX returns from a call as soon as the work
is queued, and TensorFlow from a function's asynchronous ops. A step of 0.4 ms on the host can be 97 ms on the device.
A step then lasts from the first kernel that was launched in it to the first kernel of the next step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints, median_value
from slowtrain.profile import framework_names
from slowtrain.profile.device_activity import COLLECTIVE, KERNEL, Activities
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.timeline import ProfiledDevice, Timeline, launch_calls

MIN_REPETITIONS = 3  # repetitions; fewer may be chance
MIN_CALL_TIME_SHARE = 0.5  # of the time in calls of compiled functions: a function with this share is the step
MIN_EQUAL_KERNEL_SHARE = 0.9  # of a period's kernels that must recur in the next period
MAX_PERIOD_KERNELS = 200_000  # kernels; longer periods are not searched
CallTimes: TypeAlias = dict[str, tuple[list[float], list[float]]]  # start and end of each call, by function
# Largest share of a mark's work that callback ops after the calls can have. Logical ops and copies of a number
# take microseconds; the shortest step that is profiled takes a millisecond.
MAX_OVERRUN_WORK_SHARE = 0.05
# Relative to the calls. A smaller overrun changes no share of the step by more than a tenth, and is kept.
MIN_OVERRUN_SHARE = 0.1
# Relative to the usual mark. A last mark as long as the others contains what every step has after its call.
MAX_USUAL_MARK_RATIO = 1.25
# Of the work computed outside the step that launched it; below this the host's steps are used.
MIN_OUTSIDE_WORK_SHARE = 0.1
MIN_LAST_KERNEL_SHARE = 0.9  # of the usual number of kernels; a last step with fewer was cut off
MIN_LAST_STEP_SHARE = 0.7  # of the usual time; a shorter last step lacks the wait before the next one


class StepTimes(Struct, frozen=True):
    """Steps in ms, and how they were found; an empty ``source`` means that there are no known steps.

    ``called``: start and end of the same steps on the host, if it was ahead of the device. ``by_device``: the
    device's own lines gave the steps. ``behind``: start and end of the time after the last step that the device's
    mark of it includes.
    """

    start_ms: Floats
    end_ms: Floats
    source: str
    called: tuple[Floats, Floats] | None = None
    by_device: bool = False
    behind: tuple[float, float] | None = None

    @property
    def on_host(self) -> StepTimes:
        """When the host called what the steps are made of."""
        return self if self.called is None else StepTimes(*self.called, self.source)

    def where(self, keep: Bools | slice) -> StepTimes:
        """Return some of the steps."""
        called = None if self.called is None else (self.called[0][keep], self.called[1][keep])
        return replace(self, start_ms=self.start_ms[keep], end_ms=self.end_ms[keep], called=called)

    def __len__(self) -> int:
        return len(self.start_ms)


def find_profile_steps(timeline: Timeline, device: ProfiledDevice | None) -> StepTimes:
    """Return the steps as ``device`` (the busiest one) and its host took them."""
    threads = [t for t in timeline.threads if device is None or t.host == device.host]
    found = _annotated_steps(threads) or (_marked_steps(device, threads) if device is not None else None)
    found = found or _costliest_calls(
        _function_calls(threads), "calls of the function", framework_names.KERAS_FUNCTIONS
    )
    found = found or _pjit_steps(threads)
    if found is None and device is not None:
        found = _program_steps(device) or _repeated_kernel_steps(device)
        found = found and replace(found, by_device=True)
    found = found or _pjit_steps(threads, whatever=True)
    found = found or _fetch_steps(threads)
    if found is not None:
        return found
    span = np.array([timeline.start_ms]), np.array([timeline.end_ms])
    return StepTimes(*span, "") if timeline.end_ms > timeline.start_ms else StepTimes(np.zeros(0), np.zeros(0), "")


def without_epoch_ends(found: StepTimes, threads: Sequence[HostThread]) -> StepTimes:
    """Remove iterations in which an epoch ends, because they create the next epoch's iterator.

    If most iterations create an iterator, it is part of the step, and all are kept.
    """
    creations_ms = np.sort(
        np.concatenate([np.zeros(0), *(t.time_inside(framework_names.ITERATOR_MAKING)[0] for t in threads)])
    )
    start, end = found.on_host.start_ms, found.on_host.end_ms
    whole = np.searchsorted(creations_ms, start) == np.searchsorted(creations_ms, end)
    return found.where(whole) if MIN_CALL_TIME_SHARE * len(found) < whole.sum() < len(found) else found


def _annotated_steps(threads: Sequence[HostThread]) -> StepTimes | None:
    """Steps from spans with a step number: ``tf.profiler.experimental.Trace``, Keras's TensorBoard callback, JAX."""
    best: tuple[int, HostThread, Ints] | None = None
    for thread in threads:
        if thread.step_num is not None:
            mine = np.flatnonzero(thread.step_num >= 0)
            if best is None or len(mine) > best[0]:
                best = (len(mine), thread, mine)
    if best is None:
        return None
    _, thread, mine = best
    counted = Counter(thread.name[mine].tolist())
    common = counted.most_common(1)[0][0]
    mine = mine[thread.name[mine] == common]
    label = thread.texts[common]
    return _steps_from_starts(thread.start_ms[mine], float(thread.end_ms[mine][-1]), f"the step annotation {label!r}")


def _marked_steps(device: ProfiledDevice, threads: Sequence[HostThread]) -> StepTimes | None:
    """Steps from the device's own line of steps, as far as the calls of the training function agree with it."""
    if device.marked is None:
        return None
    rows = _function_calls(threads) or _pjit_calls(threads)
    chosen = {
        n: r for n, r in rows.items() if n in framework_names.KERAS_FUNCTIONS | framework_names.JAX_TRAINING
    } or rows
    name = max(chosen, key=lambda n: sum(chosen[n][1]) - sum(chosen[n][0]), default="")
    called = [np.array(column) for column in chosen.get(name, ([], []))]
    found = check_device_marks(device.marked, device, threads, called)
    cut = f", the last one cut at the end of its call of {name!r}" if found.behind is not None else ""
    return replace(found, source=found.source + cut)


def _function_calls(threads: Sequence[HostThread]) -> CallTimes:
    """Return the calls of each ``tf.function``, from the innermost call event that the profile has."""
    for event in framework_names.EAGER_CALLS:
        found: CallTimes = {}
        for thread in threads:
            for i, text in enumerate(thread.texts):
                name = text.removeprefix(event)
                if name == text or not name.startswith(framework_names.FUNCTION_PREFIXES):
                    continue
                for prefix in framework_names.FUNCTION_PREFIXES:
                    name = name.removeprefix(prefix)
                mine = thread.name == i
                rows = found.setdefault(re.sub(framework_names.NAME_NUMBER, "", name), ([], []))
                rows[0].extend(thread.start_ms[mine].tolist())
                rows[1].extend(thread.end_ms[mine].tolist())
        if found:
            return found
    return {}


def _pjit_steps(threads: Sequence[HostThread], *, whatever: bool = False) -> StepTimes | None:
    """Steps from calls of JAX's compiled functions; of several the one with the most time on the host.

    Only functions named like a training step count. With ``whatever`` the name does not matter, but the function must
    have most of the time in such calls.
    """
    found = _pjit_calls(threads)
    whole = {n: r for n, r in found.items() if n in framework_names.JAX_TRAINING or "step" in n}
    if whatever:
        spent = {n: sum(ends) - sum(starts) for n, (starts, ends) in found.items() if len(starts) >= MIN_REPETITIONS}
        whole = {n: found[n] for n in spent if spent[n] >= MIN_CALL_TIME_SHARE * sum(spent.values())}
    return _costliest_calls(whole, "calls of the compiled function", framework_names.JAX_TRAINING)


def _pjit_calls(threads: Sequence[HostThread]) -> CallTimes:
    """Return the calls of each of JAX's compiled functions."""
    found: CallTimes = {}
    for thread in threads:
        for i, text in enumerate(thread.texts):
            if text.startswith(framework_names.PJIT_CALL):
                mine = np.flatnonzero(thread.name == i)
                # Each call is written as two nested events.
                outer = mine[intervals.is_outermost(thread.start_ms[mine], thread.end_ms[mine])]
                rows = found.setdefault(text[len(framework_names.PJIT_CALL) :].rstrip(")"), ([], []))
                rows[0].extend(thread.start_ms[outer].tolist())
                rows[1].extend(thread.end_ms[outer].tolist())
    return found


def _program_steps(device: ProfiledDevice) -> StepTimes | None:
    """Steps from runs of the XLA program that takes most of the device's time."""
    if device.programs is None:
        return None
    start, end, code, texts = device.programs
    ms = np.bincount(code, end - start, minlength=len(texts))
    most = int(ms.argmax())
    mine = np.flatnonzero(code == most)
    mine = mine[np.argsort(start[mine])]
    if len(mine) < MIN_REPETITIONS:
        return None
    return _steps_from_starts(start[mine], float(end[mine][-1]), f"runs of the program {texts[most].split('(')[0]!r}")


def _costliest_calls(found: CallTimes, what: str, preferred: frozenset[str]) -> StepTimes | None:
    chosen = {n: r for n, r in found.items() if n in preferred and len(r[0]) >= 2}
    chosen = chosen or {n: r for n, r in found.items() if len(r[0]) >= MIN_REPETITIONS}
    if not chosen:
        return None
    name = max(chosen, key=lambda n: sum(chosen[n][1]) - sum(chosen[n][0]))
    start, end = (np.array(column) for column in chosen[name])
    order = np.argsort(start)
    return _steps_from_starts(start[order], float(end.max()), f"{what} {name!r}")


def _steps_from_starts(start: Floats, last_end: float, source: str) -> StepTimes:
    """Return steps that last until the next one begins; the last until its own end, unless it is incomplete."""
    end = np.append(start[1:], max(last_end, float(start[-1])))
    whole = end[:-1] - start[:-1]
    # With two complete iterations, one may have waited for something rare: compares with the shorter one.
    usual = median_value if len(whole) >= MIN_REPETITIONS else np.min
    if len(start) >= MIN_REPETITIONS and end[-1] - start[-1] < 0.7 * float(usual(whole)):
        # The call returned before the device finished, or the profile ended: an incomplete iteration.
        start, end = start[:-1], end[:-1]
    return StepTimes(start, end, source)


def _fetch_steps(threads: Sequence[HostThread]) -> StepTimes | None:
    """Steps from waits for the next batch."""
    starts = []
    for thread in threads:
        wanted = [i for i, t in enumerate(thread.texts) if t in framework_names.GET_NEXT_OPS]
        mine = np.isin(thread.name, wanted)
        if mine.any():
            starts.append((thread.start_ms[mine], thread.end_ms[mine]))
    if not starts:
        return None
    start = np.sort(np.concatenate([s for s, _ in starts]))
    if len(start) < MIN_REPETITIONS:
        return None
    return _steps_from_starts(start, float(max(e.max() for _, e in starts)), "fetches of a batch from the iterator")


def _repeated_kernel_steps(device: ProfiledDevice) -> StepTimes | None:
    """Steps from the period of the kernel sequence on the busiest stream."""
    found = device.activities.of(KERNEL, COLLECTIVE)
    if len(found) < 2 * MIN_REPETITIONS:
        return None
    streams, counts = np.unique(found.stream, return_counts=True)
    found = found.where(found.stream == streams[counts.argmax()])
    # One kernel can serve many ops: uses the op instead if it is known.
    for period in _repetition_periods(np.where(found.op >= 0, found.op + len(found.texts), found.name)):
        first = _first_kernel_of_turn(found, period)
        turns = (len(found) - first) // period
        behind = first + turns * period  # the first kernel of an incomplete iteration
        start = found.start_ms[first:behind:period]
        last = float(found.end_ms[behind - 1] if behind == len(found) else found.start_ms[behind])
        return _steps_from_starts(start, last, f"repetitions of the same {period} kernels")
    return None


def _first_kernel_of_turn(found: Activities, period: int) -> int:
    """Return the first kernel of the first complete iteration: the one with the longest median pause before it."""
    before = np.append(-np.inf, np.maximum.accumulate(found.end_ms)[:-1])
    pause = np.maximum(found.start_ms - before, 0.0)  # the pause before the very first kernel is unknown
    choices = range(min(period, len(found) - MIN_REPETITIONS * period + 1))
    return int(np.argmax([float(median_value(pause[i or period :: period])) for i in choices]))


def _repetition_periods(sequence: Ints) -> Iterator[int]:
    """Yield periods with which the sequence repeats, the shortest first.

    The distance between two occurrences of a kernel is a whole number of periods. Therefore only distances between
    the rarest sufficiently frequent kernels are tried.
    """
    n = len(sequence)
    _, code, counts = np.unique(sequence, return_inverse=True, return_counts=True)
    tried: set[int] = set()
    rare = [i for i in np.argsort(counts, kind="stable") if counts[i] >= MIN_REPETITIONS][:12]
    candidates = []
    for kernel in rare:
        at = np.flatnonzero(code == kernel)
        distances = Counter(np.diff(at).tolist())
        # For a kernel that occurs several times per period, the period is a sum of neighbouring distances.
        for times in (1, 2, 3, 4):
            distances.update((at[times:] - at[:-times]).tolist())
        candidates += [d for d, c in distances.most_common(4) if c >= MIN_REPETITIONS - 1]
    for period in sorted(candidates):
        if period in tried or not 2 <= period <= min(n // MIN_REPETITIONS, MAX_PERIOD_KERNELS):
            continue
        tried.add(period)
        if float((code[:-period] == code[period:]).mean()) >= MIN_EQUAL_KERNEL_SHARE:
            yield period


def check_device_marks(
    marked: tuple[Floats, Floats], device: ProfiledDevice, threads: Sequence[HostThread], called: Sequence[Floats]
) -> StepTimes:
    """Return the marks, the last one cut if it is too long. ``called``: start and end of each training call.

    Only the last mark can be wrong in this way, because the time between two calls belongs to an iteration.
    """
    order = np.argsort(marked[0], kind="stable")
    start, end = marked[0][order], marked[1][order]
    whole = StepTimes(start, end, "the steps that the profile marks on the device", by_device=True)
    at = int(end.argmax())
    before = called[0] < end[at]
    if not before.any() or at != len(start) - 1:
        return whole
    usual = float(median_value(end[:at] - start[:at])) if at else 0.0
    if end[at] - start[at] <= MAX_USUAL_MARK_RATIO * usual:
        return whole
    last = float(called[1][before].max())
    # If the host was ahead, its call had ended when the device began.
    first = float(called[0][before & (called[1] > start[at])].min(initial=np.inf))
    near = (device.activities.end_ms > start[at]) & (device.activities.start_ms < end[at])
    work = device.activities.where(near)
    # What the host had started by then; work without a known call counts from its own start.
    caller, called_ms, _ = launch_calls(threads, work.correlation)
    own = np.where(caller >= 0, called_ms, work.start_ms) <= last
    if not own.any() or float(work.ms[~own].sum()) > MAX_OVERRUN_WORK_SHARE * float(work.ms.sum()):
        return whole
    begun = max(min(first, float(start[at])), float(end[:at].max(initial=-np.inf)))
    done = max(last, float(work.end_ms[own].max()))
    if end[at] - done <= MIN_OVERRUN_SHARE * (done - begun):
        return whole
    start, cut = start.copy(), end.copy()
    start[at], cut[at] = begun, done
    return replace(whole, start_ms=start, end_ms=cut, behind=(done, float(end[at])))


def device_paced_times(found: StepTimes, whole: Timeline, device: ProfiledDevice) -> StepTimes:
    """Return the host's steps, or the same steps as ``device`` took them if it was behind."""
    work = device.activities.of(KERNEL, COLLECTIVE)
    if device.kind == "CPU" or found.by_device or not len(work) or not len(found):
        return found
    threads = [t for t in whole.threads if t.host == device.host]
    _, called, _ = launch_calls(threads, work.correlation)
    # Work launched between two steps belongs to the previous one: its callbacks, its metrics.
    at = intervals.sorted_positions(found.start_ms, called, "right") - 1
    mine = (at >= 0) & (called < found.end_ms[-1])
    work, at = work.where(mine), at[mine]
    if not len(work):
        return found
    inside = np.minimum(work.end_ms, found.end_ms[at]) - np.maximum(work.start_ms, found.start_ms[at])
    if np.maximum(inside, 0.0).sum() >= (1 - MIN_OUTSIDE_WORK_SHARE) * work.ms.sum():
        return found
    count = np.bincount(at, minlength=len(found))
    began = np.full(len(found), np.inf)
    np.minimum.at(began, at, work.start_ms)
    # The device takes steps in the order of their calls; a step without a kernel is part of the previous one.
    taken = np.flatnonzero(count)
    last = taken[-1]
    if len(taken) > 1 and count[last] < MIN_LAST_KERNEL_SHARE * float(median_value(count[taken])):
        taken = taken[:-1]
        end = np.append(began[taken[1:]], began[last])
    else:
        end = np.append(began[taken[1:]], work.end_ms[at == last].max())
    start = np.maximum.accumulate(began[taken])
    if len(taken) > 2 and end[-1] - start[-1] < MIN_LAST_STEP_SHARE * float(median_value(end[:-1] - start[:-1])):
        taken, start, end = taken[:-1], start[:-1], end[:-1]
    says = f"{found.source}, with the times of the device because the host ran ahead of it"
    host = (found.start_ms[taken], found.end_ms[taken])
    return replace(found, start_ms=start, end_ms=np.maximum(end, start), source=says, called=host)
