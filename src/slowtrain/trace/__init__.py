"""A trace: what was measured, as NumPy columns, and the questions that causes ask about it.

All times are milliseconds from the start of the run. A trace knows which **signals** were measured. What was not
measured is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from msgspec import Struct, field

from slowtrain.columns.arrays import Floats, median_value
from slowtrain.columns.device import Device, Kernels, Line, Producer
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.columns.steps import MIN_TELLING_STEPS, MIN_TELLING_STEPS_MS, Steps
from slowtrain.model import Attribution, Category, Signal

Made = TypeVar("Made")
Asked = ParamSpec("Asked")

MIN_UNTOLD_SHARE = 0.6  # of a step


class Trace(Struct, frozen=True, dict=True):
    """One run. ``categories`` maps each category to its ms in every step (a column as long as ``steps``)."""

    signals: frozenset[Signal] = frozenset()
    steps: Steps = field(default_factory=Steps)
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
    main: int = 1  # the number of the thread that trains

    def compute_once(
        self, make: Callable[Concatenate[Trace, Asked], Made], *asked: Asked.args, **named: Asked.kwargs
    ) -> Made:
        """Return the cached result of ``make(self, ...)``.

        Several causes need the same result for millions of steps.
        """
        key = (make, asked, tuple(named.items()))
        if key not in self._results:
            self._results[key] = make(self, *asked, **named)
        return cast("Made", self._results[key])

    @cached_property
    def _results(self) -> dict[object, Any]:
        return {}

    @property
    def step_ms(self) -> float:
        """Mean steady step outside profiler windows."""
        return self.steps.mean_ms

    @property
    def has_enough_steps(self) -> bool:
        """Whether the steady steps are sufficient: many, or fewer that took long together.

        A profile is always sufficient with one step, because it cannot have more; a note says how few there are.
        """
        steady = self.steps.steady_ms
        if self.facts.get("profile"):
            return len(steady) >= 1
        return len(steady) >= MIN_TELLING_STEPS or (len(steady) >= 2 and float(steady.sum()) >= MIN_TELLING_STEPS_MS)

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
        return {c: float(median_value(col[steady])) if steady.any() else 0.0 for c, col in self.categories.items()}

    def share(self, category: Category) -> float:
        return self.mean(category) / self.step_ms if self.step_ms else 0.0

    @property
    def is_mostly_unattributed(self) -> bool:
        """Whether most of a step is not divided, for example a whole epoch in one function, without a window."""
        return self.share(Category.UNATTRIBUTED) > MIN_UNTOLD_SHARE

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
