"""What tf.data wrote into a profile, by thread: iterators, calls of the user's functions, and the ops in them.

An iterator's span is named by the path of its stage from the root, ``Iterator::Root::Prefetch::ParallelMapV2``. On
one thread the span of the outer stage contains that of the inner one. An asynchronous stage requests its input in its
own threads, inside ``…Produce`` spans, where paths also begin at the root. A function's call has a number, and so
have the executor turns of the function's graph, which run in tf.data's pool.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Codes, Floats, Ints, distinct_values
from slowtrain.columns.input_pipeline import PYTHON_OPS
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.format.event_columns import Stat
from slowtrain.profile.summaries import window_ops

ITERATOR, FUNCTION, PRODUCE, TURN, OP = range(1, 6)
_PATH_PREFIX = framework_names.ITERATOR_PREFIX
MAX_PATH_CHARS, MAX_PATH_STAGES = 1200, 48  # characters, stages; longer paths are no real pipelines

StageKey = tuple[int, str]  # root of a pipeline, and path of a stage in it


class StageActivity(Struct):
    """Activity of one stage: finished spans, their self time, calls of its function and their ms."""

    count: int = 0
    self_ms: float = 0.0
    produce_ms: float = 0.0
    epochs: int = 1
    begun: list[Floats] = field(default_factory=list)
    facts: dict[str, float | str] = field(default_factory=dict)
    calls: int = 0  # calls of its function, also those without recorded executor turns
    outside: bool = False  # whether calls began outside the stage's span; self_ms excludes their time
    seen: int = 0
    function_ms: float = 0.0
    ops: dict[str, list[float]] = field(default_factory=dict)  # ms and executions by op type, in the recorded turns
    python: list[tuple[Floats, Floats]] = field(default_factory=list)  # executions of ops that run Python: start, end

    @property
    def python_ms(self) -> float:
        """Time in which any thread runs Python. Of two threads in Python, one waits for the other's lock."""
        return intervals.total_length(intervals.union(*self._python()))

    @property
    def locked_ms(self) -> float:
        start, end = self._python()
        return float((end - start).sum()) - self.python_ms

    def _python(self) -> tuple[Floats, Floats]:
        start, end = (np.concatenate([one[i] for one in self.python] or [np.zeros(0)]) for i in (0, 1))
        return start, end

    def add(self, other: StageActivity) -> None:
        """Add another iterator of the same data set."""
        self.count += other.count
        self.self_ms += other.self_ms
        self.produce_ms += other.produce_ms
        self.epochs = max(self.epochs, other.epochs)
        self.begun += other.begun
        self.calls += other.calls
        self.outside |= other.outside
        self.seen += other.seen
        self.function_ms += other.function_ms
        self.python += other.python
        for kind, (ms, count) in other.ops.items():
            row = self.ops.setdefault(kind, [0.0, 0.0])
            row[0] += ms
            row[1] += count


class _ThreadSpans(Struct, frozen=True):
    """The spans of one thread in order of their start, outer before inner."""

    start_ms: Floats
    end_ms: Floats
    role: Ints
    text: Codes  # into texts
    texts: tuple[str, ...]
    id: Ints
    parent_id: Ints
    facts: Mapping[str, Stat]
    row: Ints  # in the file's order, for facts

    def rows(self, *roles: int) -> Ints:
        return np.flatnonzero(np.isin(self.role, roles))


def uncounted_path(path: str) -> str:
    """Return a path without indices that count elements.

    ``Iterator::Root::FlatMap[3]::Generator`` becomes ``Root::FlatMap::Generator``.
    """
    return re.sub(framework_names.COUNTING_STAGE, r"\1", path.removeprefix(_PATH_PREFIX))


def consumer_path(path: str) -> str:
    """Return the path of the stage that consumes this one."""
    return path.rpartition("::")[0]


def has_iterators(space: xplane.Space) -> bool:
    """Return whether any iterator was used in the profile."""
    hosts = (p for p in space.planes if p.name == framework_names.HOST_PLANE)
    return any(text.startswith(_PATH_PREFIX) for plane in hosts for text in plane.event_names.values())


def read_stages(
    space: xplane.Space, holders: Collection[str], begin_ms: float, end_ms: float
) -> dict[StageKey, StageActivity]:
    """Return every stage with activity between the two times. ``holders``: names of further threads with iterators."""
    parts = [
        part
        for plane in space.planes
        if plane.name == framework_names.HOST_PLANE
        for line in plane.lines
        if line.name.startswith(framework_names.INPUT_THREADS) or line.name in holders
        if (part := _thread_spans(plane, line, begin_ms, end_ms)) is not None
    ]
    reading = _StageReader(_PipelineRoots(parts))
    for part in parts:
        reading.iterate(part)
    reading.take_turns(parts)
    return {key: reading.stages[i] for key, i in reading.numbers.items()}


def _thread_spans(plane: xplane.Plane, line: xplane.Line, begin_ms: float, end_ms: float) -> _ThreadSpans | None:
    known = set(plane.stat_names.values())
    stats = [
        s for s in (framework_names.NODE_ID, framework_names.PARENT_ID, *framework_names.STAGE_FACTS) if s in known
    ]
    events = line.events(stats, plane.wanted_ids(lambda text: _span_role(text) > 0), int(end_ms * 1e9) + 1)
    if not len(events):
        return None
    start = events.start_ps / 1e9
    end = start + events.duration_ps / 1e9
    texts, code = plane.event_texts(events.metadata_id)
    role = np.array([_span_role(t) for t in texts], dtype=np.int64)[code]
    keep = np.flatnonzero((role > 0) & (end > begin_ms) & (start < end_ms))
    later, longer = np.diff(start[keep]), np.diff(end[keep])
    if not ((later > 0) | ((later == 0) & (longer <= 0))).all():
        keep = keep[np.lexsort((-end[keep], start[keep]))]
    if not len(keep):
        return None
    numbers = [
        events.stats[s].per_event(0).astype(np.int64)[keep] if s in known else np.zeros(len(keep), dtype=np.int64)
        for s in (framework_names.NODE_ID, framework_names.PARENT_ID)
    ]
    facts = {
        s: found for s in framework_names.STAGE_FACTS if (found := events.stats.get(s)) is not None and len(found.rows)
    }
    return _ThreadSpans(start[keep], end[keep], role[keep], code[keep], texts, numbers[0], numbers[1], facts, keep)


def _span_role(text: str) -> int:
    if text.startswith(_PATH_PREFIX):
        return ITERATOR if len(text) <= MAX_PATH_CHARS and text.count("::") <= MAX_PATH_STAGES else 0
    if text.startswith(framework_names.ITERATOR_NEXT_FUNCTION):
        return FUNCTION
    if text in (framework_names.EXECUTOR_SPAN, framework_names.EXECUTOR_DONE):
        return TURN
    if text.endswith(framework_names.PRODUCE_SUFFIX) and text.isalnum():
        return PRODUCE
    return OP if window_ops.op_type(text) is not None else 0


class _PipelineRoots:
    """Finds the pipeline of an iterator: the number at the end of its chain of parents."""

    def __init__(self, parts: Sequence[_ThreadSpans]) -> None:
        self._parent: dict[int, int] = {}
        self._roots: set[int] = set()
        for part in parts:
            rows = part.rows(ITERATOR)
            for i in rows[np.unique(part.id[rows], return_index=True)[1]]:
                number = int(part.id[i])
                if number:
                    self._parent[number] = int(part.parent_id[i])
                    if "::" not in uncounted_path(part.texts[part.text[i]]):
                        self._roots.add(number)
        self._only = next(iter(self._roots)) if len(self._roots) == 1 else 0

    def of(self, numbers: Ints) -> Ints:
        """Return the root of each iterator.

        If a link of its chain of parents is missing, the only pipeline is used, if there is just one; else 0.
        """
        different, which = np.unique(numbers, return_inverse=True)
        return np.array([self._of(n) for n in different.tolist()], dtype=np.int64)[which.ravel()]

    def _of(self, number: int) -> int:
        below: list[int] = []
        while number in self._parent and number not in self._roots and len(below) <= MAX_PATH_STAGES:
            below.append(number)
            number = self._parent[number]
        root = number if number in self._roots else self._only
        if root:
            self._parent.update(dict.fromkeys(below, root))
        return root


class _StageReader:
    """Collects the stages; each has a number."""

    def __init__(self, roots: _PipelineRoots) -> None:
        self.numbers: dict[StageKey, int] = {}
        self.stages: list[StageActivity] = []
        self._roots = roots
        self._calls: list[tuple[Ints, Ints]] = []  # numbers of calls, and of their stages

    def _number(self, key: StageKey) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.stages)
            self.stages.append(StageActivity())
        return self.numbers[key]

    def iterate(self, part: _ThreadSpans) -> None:
        """Add a thread's iterators, the stage of each function call, and the time of producing."""
        rows = part.rows(ITERATOR, FUNCTION, PRODUCE)
        role = part.role[rows]
        if not (role == ITERATOR).any():
            return
        spent = part.end_ms[rows] - part.start_ms[rows]
        above = _nearest_wanted(intervals.enclosing_spans(part.start_ms[rows], part.end_ms[rows]), role != FUNCTION)
        inner = np.flatnonzero((role == ITERATOR) & (above >= 0))
        own = spent.copy()
        np.subtract.at(own, above[inner], spent[inner])
        stage, asker = self._name(part, rows, own)
        # Spans without a path belong to the stage that consumes the iterators inside them, or those before them.
        top = np.flatnonzero((role == ITERATOR) & ((above < 0) | (role[above] == PRODUCE)) & (asker >= 0))
        produced = top[above[top] >= 0]
        stage[above[produced]] = asker[produced]
        before = np.searchsorted(top, np.arange(len(rows))) - 1
        usual = asker[top[np.maximum(before, 0)]] if len(top) else np.full_like(asker, -1)
        nameless = (role != ITERATOR) & (stage < 0)
        within = (role == FUNCTION) & (above >= 0)
        stage = np.where(nameless, np.where(within, stage[above], usual), stage)
        for i in np.flatnonzero((role == PRODUCE) & (stage >= 0)):
            self.stages[stage[i]].produce_ms += float(own[i])
        self._call(part.id[rows], stage, (role == FUNCTION) & (stage >= 0), within & (role[above] == ITERATOR))

    def _name(self, part: _ThreadSpans, rows: Ints, own: Floats) -> tuple[Ints, Ints]:
        """Add the iterators; return the stage of each row and its consumer (-1: none)."""
        stage, asker = np.full(len(rows), -1, dtype=np.int64), np.full(len(rows), -1, dtype=np.int64)
        mine = np.flatnonzero(part.role[rows] == ITERATOR)
        pairs = np.stack([part.text[rows][mine], self._roots.of(part.id[rows][mine])])
        different, which = np.unique(pairs, axis=1, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        groups = np.split(mine[order], np.flatnonzero(np.diff(which.ravel()[order])) + 1)
        for (code, root), group in zip(different.T.tolist(), groups, strict=True):
            path = uncounted_path(part.texts[code])
            stage[group] = self._number((root, path))
            if consumer_path(path):
                asker[group] = self._number((root, consumer_path(path)))
            _add_iterator_spans(self.stages[stage[group[0]]], part, rows[group], own[group])
        return stage, asker

    def _call(self, number: Ints, stage: Ints, calls: Bools, inside: Bools) -> None:
        self._calls.append((number[calls], stage[calls]))
        for i, n in zip(*np.unique(stage[calls], return_counts=True), strict=True):
            self.stages[i].calls += int(n)
        for i in distinct_values(stage[calls & ~inside]):
            self.stages[i].outside = True

    def take_turns(self, parts: Sequence[_ThreadSpans]) -> None:
        """Add the pool threads' work for the functions: executor turns of their graphs, and the ops in them."""
        numbers, of = (np.concatenate([c[i] for c in self._calls] or [np.zeros(0, np.int64)]) for i in (0, 1))
        order = np.argsort(numbers, kind="stable")
        numbers, of = numbers[order], of[order]
        seen = []
        for part in parts if len(numbers) else ():
            rows = part.rows(TURN)
            if not len(rows):
                continue
            start, end = part.start_ms[rows], part.end_ms[rows]
            first = intervals.is_outermost(start, end)
            rows, start, end = rows[first], start[first], end[first]
            at = np.minimum(np.searchsorted(numbers, part.id[rows]), len(numbers) - 1)
            stage = np.where(numbers[at] == part.id[rows], of[at], -1)
            runs = (stage >= 0) & np.array([t == framework_names.EXECUTOR_SPAN for t in part.texts])[part.text[rows]]
            seen.append(np.stack([stage[runs], part.id[rows][runs]]))
            for i in distinct_values(stage[stage >= 0]):
                self.stages[i].function_ms += float((end - start)[stage == i].sum())
            self._compute(part, start, end, stage)
        if seen:
            stage, _ = np.unique(np.concatenate(seen, axis=1), axis=1)
            for i, n in zip(*np.unique(stage, return_counts=True), strict=True):
                self.stages[i].seen = int(n)

    def _compute(self, part: _ThreadSpans, start: Floats, end: Floats, stage: Ints) -> None:
        """Add the ops in a thread's turns."""
        ops = part.rows(OP)
        at = intervals.containing_range(start, end, part.start_ms[ops])
        of = np.where(at >= 0, stage[at], -1)
        ops, of = ops[of >= 0], of[of >= 0]
        ms = part.end_ms[ops] - part.start_ms[ops]
        for i, code in np.unique(np.stack([of, part.text[ops]]), axis=1).T.tolist():
            mine = (of == i) & (part.text[ops] == code)
            kind = window_ops.op_type(part.texts[code]) or ""
            if kind in PYTHON_OPS:
                self.stages[i].python.append((part.start_ms[ops][mine], part.end_ms[ops][mine]))
            row = self.stages[i].ops.setdefault(kind, [0.0, 0.0])
            row[0] += float(ms[mine].sum())
            row[1] += float(mine.sum())


def _nearest_wanted(parent: Ints, wanted: Bools) -> Ints:
    """Return the innermost wanted span around each span, -1 if there is none."""
    found = parent.copy()
    for _ in range(len(parent)):
        skip = (found >= 0) & ~wanted[found]
        if not skip.any():
            break
        found[skip] = parent[found[skip]]
    return found


def _add_iterator_spans(stage: StageActivity, part: _ThreadSpans, rows: Ints, own: Floats) -> None:
    stage.count += len(rows)
    stage.self_ms += float(own.sum())
    stage.begun.append(part.start_ms[rows])
    counted = {
        n for code in set(part.text[rows].tolist()) for n in re.findall(framework_names.EPOCH_STAGE, part.texts[code])
    }
    stage.epochs = max([stage.epochs, *(int(n) + 1 for n in counted)])
    last = int(part.row[rows[-1]])
    for name, stat in part.facts.items():
        at = int(np.searchsorted(stat.rows, last))
        if at < len(stat.rows) and stat.rows[at] == last:
            code = int(stat.codes[at])
            stage.facts[name] = stat.texts[code] if code >= 0 else float(stat.numbers[at])
