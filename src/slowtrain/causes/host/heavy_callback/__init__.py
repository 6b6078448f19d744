"""A callback takes much of the training time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats, distinct_values
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import recorded_source, recorded_sources
from slowtrain.script.navigation import call_index
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.host.host_work import (
    is_outermost,
    spread_over_categories,
    starts_in_steady,
    starts_in_windows,
    training_start_ms,
)
from slowtrain.trace.signals.host.source_lines import writes_log
from slowtrain.whatif import Drop, Remedy, Skip

CONTAINER_CLASSES = ("CallbackList",)
MIN_LOGGING_SHARE = 0.05  # of the time of the steps
MIN_HOOK_COST_SHARE = 0.2  # of the costliest hook
BATCH_HOOK_LEFT_SHARE = 0.01  # with the cure, every hundredth step still does the work
EPOCH_HOOK_LEFT_SHARE = 0.05  # with the cure, the work is done every few epochs, or in a cheaper form
MIN_REPEATED_CALLS = 8  # from one line, as in host/predict-in-loop
SPREAD = (0.7, 1.1)


class HookCost(Struct, frozen=True):
    """The cost of a hook of a callback class, in steady steps and between them."""

    name: Name
    calls: int
    ms: float
    step_ms: float  # in a mean steady step
    between_ms: float  # over the run, outside steady steps and windows


class HookFinding(Struct, frozen=True):
    """At least one hook of a callback, the costliest first."""

    hooks: tuple[HookCost, ...]
    places: tuple[Place, ...]  # of the costliest

    @property
    def step_ms(self) -> float:
        return sum(h.step_ms for h in self.hooks)

    @property
    def between_ms(self) -> float:
        return sum(h.between_ms for h in self.hooks)

    def evidence(self, trace: Trace) -> Evidence:
        worst = self.hooks[0]
        total = sum(h.ms for h in self.hooks)
        each = worst.ms / worst.calls
        share = f", {format_number(worst.step_ms)} ms of each step of {format_number(trace.step_ms)} ms"
        share = share if worst.step_ms > 0.02 * trace.step_ms else ""
        return Evidence(
            f"{worst.name.text} takes {format_number(each)} ms a call, {worst.calls} calls, "
            f"{format_number(total / 1e3, 2)} s of the run{share}",
            {"call_ms": each, "calls": float(worst.calls), "total_ms": total, "step_ms": self.step_ms},
            self.places,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        in_steps = (1 - BATCH_HOOK_LEFT_SHARE) * self.step_ms
        between = (1 - EPOCH_HOOK_LEFT_SHARE) * self.between_ms
        dropped = (
            spread_over_categories(trace, in_steps, (Category.CALLBACK, Category.READBACK)) if in_steps > 0 else {}
        )
        return [
            *([Drop(dropped, spread=SPREAD)] if in_steps > 0 else []),
            *([Skip(between, spread=SPREAD)] if between > 0 else []),
        ]

    def scope_in(self, trace: Trace) -> str:
        return "step" if self.step_ms and self.step_ms * trace.steps.count >= self.between_ms else "run"


class LoggingFinding(Struct, frozen=True):
    """A hand-written loop writes summaries or pictures; ``step_ms`` is 0 if it does so between the steps."""

    says: str
    call_ms: float
    calls: float
    total_ms: float
    step_ms: float
    where: tuple[Place, ...]

    def evidence(self, trace: Trace) -> Evidence:
        numbers = {"call_ms": self.call_ms, "calls": self.calls, "total_ms": self.total_ms, "step_ms": self.step_ms}
        return Evidence(self.says, numbers, self.where)

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        saved_share = 1 - BATCH_HOOK_LEFT_SHARE
        if not self.step_ms:
            return [Skip(saved_share * self.total_ms, spread=SPREAD)]
        saved = spread_over_categories(trace, saved_share * self.step_ms, (Category.PYTHON, Category.READBACK))
        return [Drop(saved, spread=SPREAD)]

    def scope_in(self, trace: Trace) -> str:
        return "step" if self.step_ms else "run"


class HeavyCallback(Cause[HookFinding | LoggingFinding]):
    """A callback (logging, histograms, checkpoints, predictions) takes much of the training time."""

    title = "A callback takes much of the training time"
    lines_shared_as = "save"
    needs = frozenset({Signal.CALLBACKS, Signal.STEPS})
    words = (
        "on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin", "save_freq", "update_freq",
        "write_images", "histogram", "savefig", "save", "save_weights", "svd",
    )  # fmt: skip

    def find(self, trace: Trace) -> HookFinding | LoggingFinding | None:
        hooks = _costly_hooks(trace)
        if hooks:
            return HookFinding(tuple(hooks), _hook_places(trace, hooks[0].name))
        return _step_logging(trace) or _logging_between_steps(trace)

    def scope_in(self, trace: Trace, finding: HookFinding | LoggingFinding) -> str:
        return finding.scope_in(trace)


def _costly_hooks(trace: Trace) -> list[HookCost]:
    """Hooks in order of decreasing cost, down to a share of the costliest."""
    spans = trace.lane("callback")
    if not len(spans) or not len(trace.steps):
        return []
    steady, windowed = starts_in_steady(trace, spans), starts_in_windows(trace, spans)
    outer = is_outermost(spans)
    late = spans.end_ms > training_start_ms(trace)
    count = int(trace.steps.steady.sum()) or 1
    hooks = []
    elsewhere = _ms_of_other_causes(trace, spans)
    for number in distinct_values(spans.name[outer]):
        mine = (spans.name == number) & outer
        if float(elsewhere[mine].sum()) > 0.5 * float(spans.ms[mine].sum()):
            continue  # host/predict-in-loop, host/garbage-collection
        name = trace.names[int(number)]
        if name.text.partition(".")[0] in CONTAINER_CLASSES:
            continue
        in_steps = float(spans.ms[mine & steady].sum())
        between = float(spans.ms[mine & ~steady & ~windowed & late].sum())
        if in_steps + between > 0:
            hooks.append(HookCost(name, int(mine.sum()), in_steps + between, in_steps / count, between))
    hooks.sort(key=lambda h: -h.ms)
    return [h for h in hooks if h.ms >= MIN_HOOK_COST_SHARE * hooks[0].ms]


def _step_logging(trace: Trace) -> LoggingFinding | None:
    """Summaries and pictures that lines of a hand-written loop write in every step."""
    lines = [line for line in trace.loop_lines if writes_log(trace, line.place)]
    loop_ms = sum(line.ms for line in trace.loop_lines)
    if not lines or not loop_ms:
        return None
    python_ms = trace.mean(Category.PYTHON) + trace.mean(Category.READBACK)
    ms = python_ms * sum(line.ms for line in lines) / loop_ms
    if ms < MIN_LOGGING_SHARE * trace.step_ms:
        return None
    calls = sum(line.visits for line in lines)
    lines.sort(key=lambda line: -line.ms)
    says = (
        f"each step writes {format_number(calls)} summaries, which take {format_number(ms)} of its "
        f"{format_number(trace.step_ms)} ms"
    )
    count = trace.steps.count
    where = tuple(line.place for line in lines[:3])
    return LoggingFinding(says, ms / max(calls, 1.0), calls * count, ms * count, ms, where)


def _logging_between_steps(trace: Trace) -> LoggingFinding | None:
    """Summaries and pictures that a hand-written loop writes between its steps, by samples of its lines."""
    found = [s for s in stalls.find_stalls(trace) if s.kind == "logging"]
    total = sum(s.total_ms for s in found)
    if not found or total < MIN_LOGGING_SHARE * trace.steps.total_ms:
        return None
    count, most = sum(len(s.each) for s in found), found[0]
    often = f" every {most.period:.0f} steps" if most.period else ""
    says = (
        f"the loop writes summaries {count} times{often}, {format_number(total / count)} ms each, while a step takes "
        f"{format_number(most.usual_ms)} ms: {format_number(total / 1e3, 2)} s of the run"
    )
    return LoggingFinding(says, total / count, float(count), total, 0.0, most.where)


def _ms_of_other_causes(trace: Trace, spans: Spans) -> Floats:
    """Milliseconds of each span that another cause reports.

    These are calls of `predict` or `evaluate` that a line of the user repeats, and garbage collections.
    """
    calls: dict[object, list[Event]] = {}
    for event in trace.events_of("loop"):
        if event.data.get("nested") and event.place is not None:
            calls.setdefault(event.place, []).append(event)
    again = [e for several in calls.values() if len(several) >= MIN_REPEATED_CALLS for e in several]
    pauses = trace.lane("gc")
    predicted = intervals.union(*(np.array([getattr(e, side) for e in again]) for side in ("start_ms", "end_ms")))
    collected = intervals.union(pauses.start_ms, pauses.end_ms)
    return np.maximum(*(intervals.covered_length(one, spans.start_ms, spans.end_ms) for one in (predicted, collected)))


def _hook_places(trace: Trace, name: Name) -> tuple[Place, ...]:
    """The hook's own line if it is the user's, its hot lines by samples, and the `fit` that got the callback."""
    file, line = name.detail.get("file"), name.detail.get("line")
    calls = [e.place for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    fits = [p for p in calls if p is not None]
    if name.place is not None:
        return source_places.merge_places(_lambda_places(trace, name), (name.place, *fits[:1]))
    if not (file and line and name.detail.get("user")):
        return source_places.merge_places(_creation_places(trace, name), fits[-1:])
    own = Place(str(file), int(line))
    within = _called_function_names(trace, own, name)
    hot = [s.place for s in trace.stacks if s.place.file == file and _is_sampled_inside(trace, s.place, within)]
    return source_places.merge_places(_lambda_places(trace, name), (own, *hot[:2], *fits[-1:]))


def _creation_places(trace: Trace, name: Name) -> tuple[Place, ...]:
    """Where the script creates a callback of Keras, if in one place."""
    kind = name.text.partition(".")[0]
    calls = [
        Place(text.file, c.lineno) for text in recorded_sources(trace) for c in call_index.index_of(text).calls_of(kind)
    ]
    return tuple(calls) if len(calls) == 1 else ()


def _lambda_places(trace: Trace, name: Name) -> tuple[Place, ...]:
    """Where a function is passed to a ``LambdaCallback`` for this hook, if in one place."""
    kind, _, hook = name.text.partition(".")
    if kind != "LambdaCallback":
        return ()
    given = [(text, k.value) for text in recorded_sources(trace) for c in call_index.index_of(text).calls_of(kind)
             for k in c.keywords if k.arg == hook]  # fmt: skip
    return tuple(Place(text.file, value.lineno) for text, value in given) if len(given) == 1 else ()


def _called_function_names(trace: Trace, own: Place, name: Name) -> set[str]:
    """The name of the hook, and the names of the functions of its file that it calls."""
    text = recorded_source(trace, own.file)
    hook = text.function_at(own.line) if text is not None else None
    called = text.reachable_functions(hook) if text is not None and hook is not None else []
    return {name.text.rpartition(".")[2], *(str(getattr(one, "name", "")) for one in called)}


def _is_sampled_inside(trace: Trace, place: Place, functions: set[str]) -> bool:
    """Whether samples at ``place`` were taken in one of these functions."""
    return any(n.lane == "stack" and n.place == place and n.detail.get("within") in functions for n in trace.names)
