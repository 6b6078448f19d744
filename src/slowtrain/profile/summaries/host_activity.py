"""Facts from the host's threads in a profile, besides the reasons for a device's wait.

Which functions were traced, whether Python starts the step's ops one by one, which Python makes the input, and about
how many processors there are and how busy they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.columns.device import Producer
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.model import Place
from slowtrain.profile import framework_names, host_reasons, host_threads
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.profile_steps import StepTimes

MIN_EAGER_OPS_PER_STEP = 10  # per step; fewer ops started from Python belong to the loop around the step
MAX_ONE_FUNCTION_SHARE = 0.5  # of the time in JAX's calls; with more in one function the step is compiled


class FunctionTraces(Struct, frozen=True):
    """Calls of compiled functions as the lane ``function``, and those that traced as events."""

    names: tuple[Name, ...]
    calls: Spans
    events: tuple[Event, ...]


def function_traces(threads: Sequence[HostThread]) -> FunctionTraces | None:
    """Return the calls and traces; None if the profile does not show which calls traced."""
    rows: list[tuple[Floats, Floats, list[str], Ints, Bools]] = []
    for thread in threads:
        if thread.calls is not None:
            one = thread.calls
            rows.append((one.start_ms, one.end_ms, [thread.texts[i] for i in one.name], one.nth, one.traced))
        rows += _jax_calls(thread)
    if not rows:
        return None
    start, end, nth = (np.concatenate([r[i] for r in rows]) for i in (0, 1, 3))
    traced = np.concatenate([r[4] for r in rows])
    texts = [text for r in rows for text in r[2]]
    order = np.argsort(start, kind="stable")
    known: dict[str, int] = {}
    code = np.array([known.setdefault(texts[i], len(known)) for i in order], dtype=np.int64)
    calls = Spans(start[order], end[order], code, np.ones_like(code), np.zeros_like(code))
    first = dict(zip(*(column.tolist() for column in np.unique(code, return_index=True)), strict=True))
    seen: dict[int, int] = {}
    events = []
    for i, number, row in zip(order, code.tolist(), range(len(order)), strict=True):
        if traced[i]:
            # JAX does not record how often a function was traced before the profile began.
            seen[number] = int(nth[i]) or seen.get(number, int(first[number] < row)) + 1
            data = {"nth": seen[number], "number": number}
            events.append(Event("trace", texts[i], float(start[i]), float(end[i]), data))
    return FunctionTraces(tuple(Name("function", t, {"number": n}) for t, n in known.items()), calls, tuple(events))


def _jax_calls(thread: HostThread) -> Iterable[tuple[Floats, Floats, list[str], Ints, Bools]]:
    """Yield the calls of JAX's compiled functions from Python; nested calls are part of the outer one's trace."""
    mine = np.flatnonzero(
        np.array([t.startswith(framework_names.PJIT_CALL) for t in thread.texts], dtype=bool)[thread.name]
    )
    if not len(mine):
        return
    start, end = thread.start_ms[mine], thread.end_ms[mine]
    outermost = intervals.is_outermost(start, end)
    mine, start, end = mine[outermost], start[outermost], end[outermost]
    compiling = intervals.covered_length(thread.of("compile"), start, end)
    texts = [thread.texts[i][len(framework_names.PJIT_CALL) :].rstrip(")") for i in thread.name[mine]]
    yield start, end, texts, np.zeros(len(mine), dtype=np.int64), compiling > 0


# -- ops from Python


def is_eager_step(threads: Sequence[HostThread], found: StepTimes) -> bool:
    """Return whether Python starts the ops of the training step one by one, gradients included."""
    ops = gradients = 0
    op_ms = function_ms = 0.0
    for thread in threads:
        inside = _starts_in_steps(thread.start_ms, found)
        count = np.bincount(thread.name[inside], minlength=len(thread.texts))
        ms = np.bincount(thread.name[inside], (thread.end_ms - thread.start_ms)[inside], minlength=len(thread.texts))
        for i in np.flatnonzero(count):
            kind = framework_names.eager_op(thread.texts[i])
            if kind is not None and kind not in framework_names.CALLER_OPS | framework_names.LOOP_OPS:
                ops += int(count[i])
                op_ms += float(ms[i])
                gradients += int(count[i]) if re.search(framework_names.GRADIENT_OP, kind) else 0
            elif thread.texts[i].startswith(framework_names.EAGER_LOCAL):
                function_ms += float(ms[i])
    steps = max(len(found), 1)
    return ops >= MIN_EAGER_OPS_PER_STEP * steps and gradients >= steps and op_ms > function_ms


def jax_calls_per_step(threads: Sequence[HostThread], found: StepTimes) -> float:
    """Return calls of JAX's compiled functions per step if many small ones make up the step (one per op), else 0."""
    spent: dict[str, float] = {}
    count = 0
    for thread in threads:
        for start, end, texts, *_ in _jax_calls(thread):
            for i in np.flatnonzero(_starts_in_steps(start, found)):
                spent[texts[i]] = spent.get(texts[i], 0.0) + float(end[i] - start[i])
                count += 1
    return count / max(len(found), 1) if is_made_of_small_calls(count, len(found), spent) else 0.0


def is_made_of_small_calls(count: int, steps: int, ms_by_function: Mapping[str, float]) -> bool:
    """Return whether many small calls of JAX's compiled functions make up the steps, one for each op."""
    spent = ms_by_function.values()
    return count >= MIN_EAGER_OPS_PER_STEP * max(steps, 1) and max(spent) < MAX_ONE_FUNCTION_SHARE * sum(spent)


def has_jax_calls(threads: Sequence[HostThread]) -> bool:
    return any(text.startswith(framework_names.PJIT_CALL) for thread in threads for text in thread.texts)


def is_fed_by_keras(threads: Sequence[HostThread]) -> bool:
    """Return whether Keras' own loop copies batches to the device, by the Python tracer's frames."""
    return any(re.match(framework_names.KERAS_FEEDS, text) for thread in threads for text in thread.texts)


def host_callbacks_per_step(threads: Sequence[HostThread], found: StepTimes) -> float:
    """Return how often per step the compiled program called Python."""
    count = 0
    for thread in threads:
        mine = np.array([re.match(framework_names.HOST_CALLBACK, t) is not None for t in thread.texts], dtype=bool)
        if mine.any():
            count += int((mine[thread.name] & _starts_in_steps(thread.start_ms, found)).sum())
    return count / max(len(found), 1)


def _starts_in_steps(start: Floats, found: StepTimes) -> Bools:
    return intervals.containing_range(found.start_ms, found.end_ms, start) >= 0


def has_executor_spans(threads: Sequence[HostThread]) -> bool:
    """Return whether TensorFlow's executors or eager calls were recorded, so that iterators would have been, too."""
    return any(
        text in (framework_names.EXECUTOR_SPAN, framework_names.EAGER_EXECUTE)
        for thread in threads
        for text in thread.texts
    )


# -- Python that makes input


def has_python_frames(threads: Sequence[HostThread]) -> bool:
    """Return whether the Python tracer ran, so that all Python is visible."""
    return any(text.startswith(framework_names.PYTHON_CALL) for thread in threads for text in thread.texts)


def python_producers(threads: Sequence[HostThread], found: StepTimes) -> tuple[Producer, ...]:
    """Return the user's Python functions that Keras's data adapters call, from the tracer's frames, costliest first."""
    spent: dict[str, list[float]] = {}
    for thread in threads:
        for text, ms in _adapter_frames(thread, found):
            row = spent.setdefault(text, [0.0, 0.0])
            row[0] += ms
            row[1] += 1.0
    steps = max(len(found), 1)
    result = []
    for text, (ms, count) in sorted(spent.items(), key=lambda item: -item[1][0]):
        frame = re.fullmatch(framework_names.PYTHON_FRAME, text)
        if frame is not None:
            place = Place(frame[1], int(frame[2]))
            result.append(Producer("profiled", frame[3], place, ms / steps, count / steps))
    return tuple(result)


def _adapter_frames(thread: HostThread, found: StepTimes) -> Iterable[tuple[str, float]]:
    """Yield frames that an adapter called to get a batch, with their ms."""
    adapter = np.array([bool(re.match(framework_names.DATA_ADAPTER, t)) for t in thread.texts], dtype=bool)
    if not adapter.any():
        return
    frames = np.flatnonzero(np.array([t.startswith(framework_names.PYTHON_CALL) for t in thread.texts])[thread.name])
    frames = frames[np.lexsort((-thread.end_ms[frames], thread.start_ms[frames]))]
    start, end, code = thread.start_ms[frames], thread.end_ms[frames], thread.name[frames]
    above = intervals.enclosing_spans(start, end)
    builtin = np.array([re.fullmatch(framework_names.PYTHON_FRAME, t) is None for t in thread.texts], dtype=bool)
    users = np.array(
        [
            bool(re.fullmatch(framework_names.PYTHON_FRAME, t)) and not re.match(framework_names.KERAS_DATA, t)
            for t in thread.texts
        ],
        dtype=bool,
    )
    for _ in range(3):  # skips the built-in next() between an adapter and a generator
        skip = (above >= 0) & builtin[code[above]]
        above = np.where(skip, above[above], above)
    chosen = users[code] & (above >= 0) & adapter[code[above]] & _starts_in_steps(start, found)
    for i in np.flatnonzero(chosen):
        yield thread.texts[code[i]], float(end[i] - start[i])


# -- processors


def pool_cores(threads: Sequence[HostThread]) -> float:
    """Return the number of active threads in the largest pool, a lower bound for the usable processors."""
    labels = {(t.host, t.label) for t in threads if t.label.startswith(framework_names.POOL_THREADS)}
    count: dict[str, int] = {}
    for _, label in labels:
        pool = label.partition("/")[0]
        count[pool] = count.get(pool, 0) + 1
    return float(max(count.values(), default=1))


def host_busy_ms(threads: Sequence[HostThread], found: StepTimes, ops_ms: float) -> float:
    """Return the approximate processor time per step without input: the main thread less its waits, and ops elsewhere.

    A call of a graph function waits for its ops, which run on other threads. Work that an op splits over a pool is
    not included.
    """
    main = host_threads.find_main_thread(threads)
    step = float((found.end_ms - found.start_ms).mean()) if len(found) else 0.0
    if main is None:
        return step
    reasons = [host_reasons.REASONS.index(r) for r in ("sync", "input")]
    waits = np.array([is_function_call(t) for t in main.texts], dtype=bool)[main.name] | np.isin(main.reason, reasons)
    waiting = intervals.union(main.start_ms[waits], main.end_ms[waits])
    return step - float(intervals.covered_length(waiting, found.start_ms, found.end_ms).mean()) + ops_ms


def is_function_call(text: str) -> bool:
    """Return whether a span is Python's call of a graph function."""
    return text.startswith(framework_names.EAGER_LOCAL) and framework_names.eager_op(text) is None
