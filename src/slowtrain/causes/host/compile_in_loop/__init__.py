"""A model or function is built and traced again in a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.causes.host.compile_in_loop import factories, rebuilding, reusing
from slowtrain.causes.host.compile_in_loop.restarting import restarted
from slowtrain.columns.array_statistics import median_value, unique_values
from slowtrain.columns.spans import Event, Spans
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import hoisting
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

LEAST = 3  # builds of one line: training in two stages (frozen, then unfrozen) compiles twice and must


class CompileInLoop(Cause[Evidence]):
    """A model, an optimizer or a `tf.function` is made again in a loop, and traced again each time."""

    title = "a model or function is built and traced again in a loop"
    needs = frozenset({Signal.TRACES, Signal.PHASES})
    scope = "run"
    words = (".compile", ".function", "import function")

    def find(self, trace: Trace) -> Evidence | None:
        found = _rebuilt(trace)
        if not found:
            return None
        worst = found[0]
        each = float(median_value([worst.extra_ms(e) for e in worst.events[1:]]))
        total = _total_ms(trace, found)
        made = _made(trace, worst)
        return Evidence(
            f"{_subject(worst)} was made and traced {len(worst.events)} times, "
            f"{format_number(each)} ms each, {format_number(total / 1e3, 2)} s of the run",
            {"builds": float(len(worst.events)), "trace_ms": each, "total_ms": total},
            made,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _rebuilt(trace)
        ms = _total_ms(trace, found)
        if self.scope_in(trace, evidence) == "step":
            steady = max(int(trace.steps.steady.sum()), 1)
            taken = spread_over_categories(trace, _in_steps_ms(trace, found) / steady, (Category.COMPILE, Category.GC))
            return [Drop(taken, spread=(0.95, 1.02))]
        return [Skip(ms, spread=(0.85, 1.15))]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the step where nearly every step builds something new, otherwise of the run."""
        builds = max((len(f.events) - 1 for f in _rebuilt(trace)), default=0)
        return "step" if len(trace.steps) and builds >= 0.8 * len(trace.steps) else "run"

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        once = "build, compile and define tf.functions once before the loop; reset weights and rates in it"
        rate = measured.first(trace, evidence.where, hoisting.recompiled)
        rate = rate or measured.first(trace, evidence.where, hoisting.hoisted)
        rate = rate or measured.first(trace, evidence.where, restarted)
        rate = rate or measured.first(trace, evidence.where, factories.remembered)
        anew = () if rate else measured.first(trace, evidence.where, rebuilding.rebuilt)
        anew = anew or (() if rate else measured.first(trace, evidence.where, reusing.reused))
        if anew:
            says = (
                "build and compile once before the loop; set new weights and the optimizer's first state in each turn"
            )
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=anew)
        yield Prescription("edit", Effect.EXACT, once, edits=rate)


def _rebuilt(trace: Trace) -> list[TracedFunction]:
    """Definitions made again with the same arguments, costliest first."""
    models = _weights_of_fits(trace)
    found = [d for d in first_traces_by_definition(trace) if len(d.events) >= LEAST and _alike(trace, d, models)]
    return sorted(found, key=lambda d: -sum(d.extra_ms(e) for e in d.events[1:]))


def _weights_of_fits(trace: Trace) -> list[tuple[Event, str]]:
    return [(e, _shapes(e)) for e in trace.events_of("loop") if e.name == "fit" and e.data.get("weights")]


def _shapes(fit: Event) -> str:
    return str(sorted((str(w.get("class")), w.get("shape")) for w in fit.data["weights"]))


def _alike(trace: Trace, one: TracedFunction, fits: list[tuple[Event, str]]) -> bool:
    """Whether at least two builds were of a model with the weights of an earlier one.

    Where no model is known, whether their arguments had the shapes of an earlier one's.
    """
    kinds = []
    for event in one.events:
        loops = [e for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms]
        models = {e.data.get("model") for e in loops} - {None}
        known = [shapes for fit, shapes in fits if fit.data.get("model") in models and fit.start_ms <= event.start_ms]
        kinds.append(known[-1] if known else str(_plain(event.data.get("signature") or {})))
    return len(kinds) - len(set(kinds)) >= LEAST - 1


def _plain(signature: dict[str, dict[str, object]]) -> list[tuple[str, object, object]]:
    """Arguments without batch sizes and identities, which differ between folds without another graph being needed."""
    return [(n, leaf.get("kind"), (leaf.get("shape") or [None])[1:]) for n, leaf in signature.items()]  # type: ignore[index]


def _total_ms(trace: Trace, found: list[TracedFunction]) -> float:
    """Tracing after the first of each, and the lines that build layers and compile after the first trace of all."""
    ms = sum(one.extra_ms(e) for one in found for e in one.events[1:])
    first = min(one.events[0].end_ms for one in found)
    last = max(one.events[-1].end_ms for one in found)
    build = trace.lane("build")
    build = build.where((build.start_ms > first) & (build.start_ms < last))
    return ms + max(float(build.ms[is_outermost(build)].sum()), _building_ms(trace, build, first, last))


def _building_ms(trace: Trace, build: Spans, first: float, last: float) -> float:
    """Time of the lines in which layers were seen to be built: Keras makes and checks them before their build begins.

    Counted by samples of the main thread, in lines that take no steps and call no loop of Keras'.
    """
    taken = [trace.steps.place, *(trace.names[int(n)].place for n in unique_values(trace.lane("function").name))]
    trained = [*taken, *(e.place for e in trace.events_of("loop"))]
    places = set(sampled_places(trace, build)) - set(trained)
    samples = trace.lane("stack").between(first, last)
    mine = np.array([trace.names[int(n)].place in places for n in samples.name], dtype=bool)
    return float(ms_of_samples(trace, samples.where(mine & ~starts_in_windows(trace, samples))).sum())


def _in_steps_ms(trace: Trace, found: list[TracedFunction]) -> float:
    start, end = trace.steps.start_ms[trace.steps.steady], trace.steps.end_ms[trace.steps.steady]
    inside = 0.0
    for one in found:
        for event in one.events[1:]:
            at = int(np.searchsorted(start, event.end_ms)) - 1
            inside += one.extra_ms(event) if at >= 0 and event.start_ms < end[at] else 0.0
    build = trace.lane("build")
    build = build.where(~starts_in_windows(trace, build) & (np.searchsorted(start, build.start_ms) > 0))
    return inside + float(build.ms[is_outermost(build)].sum())


def _subject(one: TracedFunction) -> str:
    if one.events[0].data.get("keras"):
        return "the model's train function" if one.events[0].data.get("training") else "the model's function"
    return f"the tf.function {one.name}"


def _made(trace: Trace, one: TracedFunction) -> tuple[Place, ...]:
    """Where it is made: repeated `compile()` calls, the line of the `tf.function`, the call."""
    places: list[Place] = []
    if one.events[0].data.get("keras"):
        counts: dict[Place, int] = {}
        for event in trace.events_of("compile"):
            if event.place is not None:
                counts[event.place] = counts.get(event.place, 0) + 1
        compiled = sorted((p for p, n in counts.items() if n >= LEAST), key=lambda p: -counts[p])
        places += [
            q
            for p in compiled
            for q in source_locations.file_places(
                trace, p, lambda s, line: source_locations.receiver_line(s, line, "compile")
            )
        ]
        places += compiled
    else:
        numbers = {e.data.get("number") for e in one.events}
        made = [n.detail.get("made") for n in trace.names if n.lane == "function" and n.detail.get("number") in numbers]
        places += [Place(str(m[0]), int(m[1])) for m in made if m][:1]
        places += [one.written] if one.written is not None else []
    return tuple(dict.fromkeys([*places, *([one.place] if one.place else [])]))[:4]
