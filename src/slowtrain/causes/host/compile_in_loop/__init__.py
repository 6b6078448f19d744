"""A model or function is built and traced again in a loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.arrays import distinct_values, median_value
from slowtrain.columns.spans import Event, Spans
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    is_outermost,
    ms_of_samples,
    sampled_places,
    spread_over_categories,
    starts_in_windows,
)
from slowtrain.trace.signals.host.retraces import TracedFunction, first_traces_by_definition
from slowtrain.whatif import Drop, Remedy, Skip

MIN_BUILDS = 3  # from one line: training in two stages (frozen, then unfrozen) has to compile twice
MIN_BUILDS_PER_STEP = 0.8  # then the saving is that of a step


class RebuildFinding(Struct, frozen=True):
    """At least one function that is defined and traced again, in order of decreasing cost."""

    functions: tuple[TracedFunction, ...]
    places: tuple[Place, ...]  # where the costliest is created


class CompileInLoop(Cause[RebuildFinding]):
    """A model, an optimizer or a `tf.function` is created again in a loop, and traced again each time."""

    title = "A model or function is built and traced again in a loop"
    needs = frozenset({Signal.TRACES, Signal.PHASES})
    scope = "run"
    words = (".compile", ".function", "import function")

    def find(self, trace: Trace) -> RebuildFinding | None:
        functions = _rebuilt_functions(trace)
        if not functions:
            return None
        found = RebuildFinding(tuple(functions), _creation_places(trace, functions[0]))
        return replace(found, places=tuple(dict.fromkeys((*self.lines_to_change(trace, found), *found.places)))[:4])

    def evidence(self, trace: Trace, finding: RebuildFinding) -> Evidence:
        worst = finding.functions[0]
        each = float(median_value([worst.extra_ms(e) for e in worst.events[1:]]))
        total = _avoidable_ms(trace, finding.functions)
        return Evidence(
            f"{_function_description(worst)} was created and traced {len(worst.events)} times, "
            f"{format_number(each)} ms each, {format_number(total / 1e3, 2)} s of the run",
            {"builds": float(len(worst.events)), "trace_ms": each, "total_ms": total},
            finding.places,
        )

    def remedies(self, trace: Trace, finding: RebuildFinding) -> Sequence[Remedy]:
        if self.scope_in(trace, finding) == "run":
            return [Skip(_avoidable_ms(trace, finding.functions), spread=(0.85, 1.15))]
        ms = _in_steps_ms(trace, finding.functions) / max(int(trace.steps.steady.sum()), 1)
        return [Drop(spread_over_categories(trace, ms, (Category.COMPILE, Category.GC)), spread=(0.95, 1.02))]

    def scope_in(self, trace: Trace, finding: RebuildFinding) -> str:
        """A step's saving if nearly every step builds something, otherwise the run's."""
        builds = max(len(f.events) - 1 for f in finding.functions)
        return "step" if len(trace.steps) and builds >= MIN_BUILDS_PER_STEP * len(trace.steps) else "run"


def _rebuilt_functions(trace: Trace) -> list[TracedFunction]:
    """Functions that are defined again with the same arguments, in order of decreasing cost."""
    models = _weights_of_fits(trace)
    found = [
        d
        for d in first_traces_by_definition(trace)
        if len(d.events) >= MIN_BUILDS and _has_repeated_models(trace, d, models)
    ]
    return sorted(found, key=lambda d: -sum(d.extra_ms(e) for e in d.events[1:]))


def _weights_of_fits(trace: Trace) -> list[tuple[Event, str]]:
    return [(e, _weight_shapes(e)) for e in trace.events_of("loop") if e.name == "fit" and e.data.get("weights")]


def _weight_shapes(fit: Event) -> str:
    return str(sorted((str(w.get("class")), w.get("shape")) for w in fit.data["weights"]))


def _has_repeated_models(trace: Trace, one: TracedFunction, fits: list[tuple[Event, str]]) -> bool:
    """Whether at least two builds have a model with the same weight shapes as an earlier one.

    If no model is known, the shapes of the arguments are compared.
    """
    kinds = []
    for event in one.events:
        loops = [e for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms]
        models = {e.data.get("model") for e in loops} - {None}
        known = [shapes for fit, shapes in fits if fit.data.get("model") in models and fit.start_ms <= event.start_ms]
        kinds.append(known[-1] if known else str(_comparable_signature(event.data.get("signature") or {})))
    return len(kinds) - len(set(kinds)) >= MIN_BUILDS - 1


def _comparable_signature(signature: dict[str, dict[str, object]]) -> list[tuple[str, object, object]]:
    """Arguments without batch sizes and identities. Those differ between folds that could use one graph."""
    return [(n, leaf.get("kind"), (leaf.get("shape") or [None])[1:]) for n, leaf in signature.items()]  # type: ignore[index]


def _avoidable_ms(trace: Trace, found: Sequence[TracedFunction]) -> float:
    """Tracing after the first trace of each, and lines that build layers and compile after the first trace of all."""
    ms = sum(one.extra_ms(e) for one in found for e in one.events[1:])
    first = min(one.events[0].end_ms for one in found)
    last = max(one.events[-1].end_ms for one in found)
    build = trace.lane("build")
    build = build.where((build.start_ms > first) & (build.start_ms < last))
    return ms + max(float(build.ms[is_outermost(build)].sum()), _building_ms(trace, build, first, last))


def _building_ms(trace: Trace, build: Spans, first: float, last: float) -> float:
    """Time of the lines that build layers, by samples of the main thread.

    It is more than the builds themselves, because Keras creates and checks layers before their build begins. Lines
    that take steps or call a loop of Keras do not count.
    """
    steps = [trace.steps.place, *(trace.names[int(n)].place for n in distinct_values(trace.lane("function").name))]
    places = set(sampled_places(trace, build)) - {*steps, *(e.place for e in trace.events_of("loop"))}
    samples = trace.lane("stack").starting_between(first, last)
    mine = np.array([trace.names[int(n)].place in places for n in samples.name], dtype=bool)
    return float(ms_of_samples(trace, samples.where(mine & ~starts_in_windows(trace, samples))).sum())


def _in_steps_ms(trace: Trace, found: Sequence[TracedFunction]) -> float:
    start, end = trace.steps.start_ms[trace.steps.steady], trace.steps.end_ms[trace.steps.steady]
    inside = 0.0
    for one in found:
        for event in one.events[1:]:
            at = int(np.searchsorted(start, event.end_ms)) - 1
            inside += one.extra_ms(event) if at >= 0 and event.start_ms < end[at] else 0.0
    build = trace.lane("build")
    build = build.where(~starts_in_windows(trace, build) & (np.searchsorted(start, build.start_ms) > 0))
    return inside + float(build.ms[is_outermost(build)].sum())


def _function_description(one: TracedFunction) -> str:
    if one.events[0].data.get("keras"):
        return "the model's train function" if one.events[0].data.get("training") else "the model's function"
    return f"the tf.function {one.name}"


def _creation_places(trace: Trace, one: TracedFunction) -> tuple[Place, ...]:
    """Where it is created: repeated `compile()` calls, the line of the `tf.function`, the call."""
    places: list[Place] = []
    if one.events[0].data.get("keras"):
        counts: dict[Place, int] = {}
        for event in trace.events_of("compile"):
            if event.place is not None:
                counts[event.place] = counts.get(event.place, 0) + 1
        places += sorted((p for p, n in counts.items() if n >= MIN_BUILDS), key=lambda p: -counts[p])
    else:
        numbers = {e.data.get("number") for e in one.events}
        made = [n.detail.get("made") for n in trace.names if n.lane == "function" and n.detail.get("number") in numbers]
        places += [Place(str(m[0]), int(m[1])) for m in made if m][:1]
        places += [one.definition] if one.definition is not None else []
    return tuple(dict.fromkeys([*places, *([one.place] if one.place else [])]))
