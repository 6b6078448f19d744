"""A trace: what was measured, as NumPy columns, and the questions that causes ask about it.

All times are milliseconds from the start of the run. A trace knows which **signals** were measured. What was not
measured is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from slowtrain.model import Attribution, Bar, Category, Place, Signal
from slowtrain.trace.accelerator import Device as Device
from slowtrain.trace.accelerator import ProfiledSteps as ProfiledSteps
from slowtrain.trace.ordered import halfway, quantile
from slowtrain.trace.pipeline import Pipeline
from slowtrain.trace.totals import Whole
from slowtrain.values import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Made = TypeVar("Made")
Asked = ParamSpec("Asked")

FEW_STEPS, FEW_STEPS_MS = 8, 500.0  # fewer steady steps say nothing, unless they took this long together
UNTOLD = 0.6  # of a step

NO_FLOATS: Floats = np.zeros(0)
NO_INTS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Name:
    """The name of a span; ``detail`` holds its source place and what else the recorder knew."""

    lane: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Place | None:
        """The user's line that made the call."""
        return place_of(self.detail.get("site"))


def place_of(site: Sequence[Any] | None) -> Place | None:
    """Return ``[file, line]`` as a place, None for None."""
    return Place(str(site[0]), int(site[1])) if site and site[1] is not None else None


@dataclass(frozen=True)
class Spans:
    """Spans of one lane in order of start. ``name`` indexes ``Trace.names``; ``value`` depends on the lane."""

    start_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    end_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    name: Ints = field(default_factory=lambda: NO_INTS)
    thread: Ints = field(default_factory=lambda: NO_INTS)
    value: Ints = field(default_factory=lambda: NO_INTS)

    def __len__(self) -> int:
        return len(self.start_ms)

    @property
    def ms(self) -> Floats:
        return self.end_ms - self.start_ms

    def where(self, keep: Bools) -> Spans:
        return Spans(self.start_ms[keep], self.end_ms[keep], self.name[keep], self.thread[keep], self.value[keep])

    def between(self, start_ms: float, end_ms: float) -> Spans:
        """Return the spans that start in ``[start_ms, end_ms)``."""
        a, b = np.searchsorted(self.start_ms, (start_ms, end_ms))
        some = slice(int(a), int(max(a, b)))
        return Spans(self.start_ms[some], self.end_ms[some], self.name[some], self.thread[some], self.value[some])


@dataclass(frozen=True)
class Event:
    """A rare event with its details."""

    lane: str
    name: str
    start_ms: float
    end_ms: float
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ms(self) -> float:
        return self.end_ms - self.start_ms

    @property
    def place(self) -> Place | None:
        return place_of(self.data.get("site"))


@dataclass(frozen=True)
class Steps:
    """All steps of the run in order.

    ``source`` says what a step is here (``fit``, ``train_on_batch``, ``function train_step``, …). ``steady`` marks
    undisturbed steps after warm-up, ``windowed`` those disturbed by a profiler window or a stop of the process.
    ``block`` numbers the unbroken stretches (usually epochs). ``size`` is samples per step, 0 if unknown.

    In a long run most stretches are thinned. Then the steps are those of the kept stretches, and the exact long steps
    of the others. The latter are ``rare`` and not steady, because they would be over-represented. Steps at the
    ``edge`` of a stretch are not steady either, because a part of them is missing: next to a thinned stretch, and in
    an unbroken one whose last step ends with its call. ``whole`` describes all steady steps of the run.
    """

    source: str = ""
    start_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    end_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    steady: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    windowed: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    block: Ints = field(default_factory=lambda: NO_INTS)
    size: Ints = field(default_factory=lambda: NO_INTS)
    training: bool = True
    place: Place | None = None
    numbers: Ints | None = None
    rare: Bools | None = None
    edge: Bools | None = None
    whole: Whole | None = None

    def __len__(self) -> int:
        return len(self.start_ms)

    @property
    def ms(self) -> Floats:
        return self.end_ms - self.start_ms

    @property
    def number(self) -> Ints:
        """The number of each step in the run, from 0."""
        return np.arange(len(self), dtype=np.int64) if self.numbers is None else self.numbers

    @property
    def steady_ms(self) -> Floats:
        """Steady step times; in a thinned run a uniform sample.

        See ``count``, ``total_ms``, ``quantile_ms`` for totals.
        """
        return self.ms[self.steady]

    @property
    def mean_ms(self) -> float:
        """Mean steady step of the run, the total of the attribution."""
        if self.whole is not None and self.whole.count:
            return self.whole.total_ms / self.whole.count
        steady = self.steady_ms
        return float(steady.mean()) if len(steady) else 0.0

    @property
    def count(self) -> int:
        """Number of steady steps of the run, including thinned ones."""
        return int(self.steady.sum()) if self.whole is None else self.whole.count

    @property
    def total_ms(self) -> float:
        """Total time of these steps."""
        return float(self.steady_ms.sum()) if self.whole is None else self.whole.total_ms

    @property
    def warm(self) -> int:
        """Number of warm-up steps."""
        # Steps in windows are neither warm-up nor steady, because they were disturbed on purpose.
        early = ~self.told & ~self.windowed
        return int((early if self.edge is None else early & ~self.edge).sum())

    @property
    def told(self) -> Bools:
        """The steady steps, and the long ones of thinned stretches: it includes every long step of the run."""
        return self.steady if self.rare is None else self.steady | self.rare

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of all steady steps of the run; NaN without any."""
        if self.whole is not None:
            return self.whole.quantile_ms(share)
        return float(quantile(self.steady_ms, share)) if self.steady.any() else float("nan")

    def mean_of(self, column: Floats) -> float:
        """Return the mean of a column over the steady steps. Columns that add up to the step have means that add up."""
        if self.whole is None:
            return float(column[self.steady].mean()) if self.steady.any() else 0.0
        return float(self.whole.weight @ column)


@dataclass(frozen=True)
class Line:
    """The self time of a user's line, measured by tracing lines. Ms and visits are per step or call."""

    place: Place
    ms: float
    visits: float
    share: float


@dataclass(frozen=True)
class Kernels:
    """Op executions inside the deep windows, per step.

    ``ms`` is op time summed over threads, ``busy_ms`` is their union. ``by_type`` and ``by_name`` give ``(ms,
    count)`` per step. ``wait_ms`` is the time in the iterator's op, ``eager_ms`` that of kernels which Python started
    one by one (``eager_ops`` of them). All times are ms per step; ``bars`` is one step drawn.
    """

    steps: int
    step_ms: float
    busy_ms: float
    ms: float
    count: float
    wait_ms: float
    by_type: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_name: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    eager_ops: float = 0.0
    eager_ms: float = 0.0
    function_ms: float = 0.0
    bars: tuple[Bar, ...] = ()
    eager_work_ms: float = 0.0  # part of eager_ms beyond the usual op, most of which compute almost nothing
    by_input: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # ops in the input pipeline's threads
    peers_ms: float = 0.0  # ops wait for other training processes, and none computes
    input_calls: float | None = None  # function calls per step in these threads; None: unknown


@dataclass(frozen=True)
class Producer:
    """A Python function that makes input: its place, its cost per step, its costliest lines."""

    kind: str
    qualname: str
    place: Place | None
    ms_per_step: float
    calls_per_step: float
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Trace:
    """One run. ``categories`` maps each category to its ms in every step (a column as long as ``steps``)."""

    signals: frozenset[Signal] = frozenset()
    steps: Steps = Steps()
    names: tuple[Name, ...] = ()
    lanes: Mapping[str, Spans] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    categories: Mapping[Category, Floats] = field(default_factory=dict)
    run: Attribution = field(default_factory=lambda: Attribution(0.0, ()))
    pipelines: tuple[Pipeline, ...] = ()
    kernels: Kernels | None = None
    producers: tuple[Producer, ...] = ()
    loop_lines: tuple[Line, ...] = ()
    stacks: tuple[Line, ...] = ()
    samples: Mapping[str, Floats] = field(default_factory=dict)
    root: str = ""
    device: Device | None = None
    _made: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, make: Callable[Concatenate[Trace, Asked], Made], *asked: Asked.args, **named: Asked.kwargs) -> Made:
        """Return the cached result of ``make(self, ...)``.

        Several causes need the same result for millions of steps.
        """
        key = (make, asked, tuple(named.items()))
        if key not in self._made:
            self._made[key] = make(self, *asked, **named)
        return cast("Made", self._made[key])

    @property
    def step_ms(self) -> float:
        """Mean steady step outside profiler windows."""
        return self.steps.mean_ms

    @property
    def enough(self) -> bool:
        """Whether the steady steps are sufficient: many, or fewer that took long together.

        A profile is always sufficient with one step, because it cannot have more; a note says how few there are.
        """
        steady = self.steps.steady_ms
        if self.facts.get("profile"):
            return len(steady) >= 1
        return len(steady) >= FEW_STEPS or (len(steady) >= 2 and float(steady.sum()) >= FEW_STEPS_MS)

    @property
    def run_ms(self) -> float:
        return self.run.total_ms

    def mean(self, category: Category) -> float:
        """Return the mean ms of a category in a steady step."""
        return self._means.get(category, 0.0)

    @cached_property
    def _means(self) -> Mapping[Category, float]:
        return {c: self.steps.mean_of(column) for c, column in self.categories.items()}

    @cached_property
    def usual(self) -> Mapping[Category, float]:
        """Median ms of each category in a steady step."""
        steady = self.steps.steady
        return {c: float(halfway(col[steady])) if steady.any() else 0.0 for c, col in self.categories.items()}

    def share(self, category: Category) -> float:
        return self.mean(category) / self.step_ms if self.step_ms else 0.0

    @property
    def untold(self) -> bool:
        """Whether most of a step is not divided, for example a whole epoch in one function, without a window."""
        return self.share(Category.UNATTRIBUTED) > UNTOLD

    def lane(self, name: str) -> Spans:
        return self.lanes.get(name, Spans())

    def events_of(self, lane: str) -> Iterator[Event]:
        return iter(self._by_lane.get(lane, ()))

    @cached_property
    def _by_lane(self) -> Mapping[str, Sequence[Event]]:
        found: dict[str, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.lane, []).append(event)
        return found

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """The pipeline that feeds the steps: of the consumed ones that with the most batches."""
        fed = [p for p in self.pipelines if p.batches]
        return max(fed, key=lambda p: p.batches) if fed else (self.pipelines[-1] if self.pipelines else None)

    def fact(self, *path: str, default: Any = None) -> Any:
        """Return a nested fact, for example ``fact("machine", "cores")``, or ``default``."""
        value: Any = self.facts
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value

    @property
    def cores(self) -> float:
        """Processors that this process may use, considering affinity and the cgroup's quota."""
        return float(self.fact("usable_cores", default=1) or 1)

    @property
    def eager(self) -> bool:
        """Whether Python runs the step op by op."""
        return bool(self.fact("eager_step", default=False))

    @property
    def on_jax(self) -> bool:
        """Whether JAX computes, by itself or as Keras' backend."""
        return bool(self.fact("jax")) or self.fact("keras", "backend") == "jax"

    @property
    def on_accelerator(self) -> bool:
        return any(d.get("kind") != "CPU" for d in self.fact("devices", default=()) or ())
