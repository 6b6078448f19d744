"""Garbage collection pauses the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.spans import Spans
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import hoisting
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import main_thread, sampled_places, starts_in_steady, starts_in_windows
from slowtrain.whatif import Drop, Remedy, Skip

FULL = "generation 2"
LEAST = 3  # full collections: one or two are the interpreter's own housekeeping after start-up


class GarbageCollection(Cause[Evidence]):
    """Python's garbage collector pauses the steps."""

    title = "garbage collection pauses the steps"
    needs = frozenset({Signal.STEPS, Signal.GC})
    words = ("gc.collect", "collect")

    def find(self, trace: Trace) -> Evidence | None:
        full = _full(trace)
        if len(full) < LEAST or (trace.mean(Category.GC) <= 0 and not _between_ms(trace, full)):
            return None
        traced = _traced_share(trace)
        if traced > 0.5:
            return None
        asked = _asked(trace, full)
        ms, each = trace.mean(Category.GC), float(full.ms.mean())
        who = "asked for by the script" if asked else "started by Python itself"
        return Evidence(
            f"{len(full)} full collections, {who}, {each:.0f} ms each: "
            f"{format_number(ms)} ms of each step of {format_number(trace.step_ms)} ms",
            {"gc_ms": ms, "full_collections": float(len(full)), "full_ms": each, "asked": float(asked)},
            _places(trace, full) if asked else (),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        full = _full(trace)
        asked = bool(evidence.numbers["asked"])
        # Frozen objects are not walked, new ones still are: what young generations cost remains either way.
        drop = Drop({Category.GC: trace.mean(Category.GC)}, spread=(0.9, 1.05) if asked else (0.5, 1.0))
        between = _between_ms(trace, full) if asked else 0.0
        return [drop, Skip(between, spread=(0.9, 1.05))] if between else [drop]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        between = _between_ms(trace, _full(trace)) if evidence.numbers["asked"] else 0.0
        return "step" if trace.mean(Category.GC) * trace.steps.count >= between else "run"

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers["asked"]:
            says = "take gc.collect() (or clear_session()) out of the loop"
            found = measured.first(trace, evidence.where, hoisting.collected_after)
            yield Prescription("edit", Effect.EXACT, says, edits=found)
        else:
            skip = "call gc.freeze() once the model is built, so that collections skip what stays"
            steps = [trace.steps.place] if trace.steps.place is not None else []
            yield Prescription("treatment", Effect.EXACT, skip, edits=measured.first(trace, steps, hoisting.frozen))


def _full(trace: Trace) -> Spans:
    """Full collections of the training thread from the first steady step on, outside profiler windows."""
    spans = trace.lane("gc")
    if not len(spans) or not trace.steps.steady.any():
        return Spans()
    main = main_thread(trace)
    text = np.array([n.text.replace("_", " ") == FULL for n in trace.names])[spans.name]
    steady = trace.steps.steady
    first, last = float(trace.steps.start_ms[steady][0]), float(trace.steps.end_ms[-1])
    keep = text & (spans.thread == main) & (spans.start_ms >= first) & (spans.start_ms <= last)
    return spans.where(keep & ~starts_in_windows(trace, spans))


def _asked(trace: Trace, full: Spans) -> bool:
    """Whether full collections come more often than one for ten of the generation below, the interpreter's rule."""
    spans = trace.lane("gc")
    younger = spans.where(np.array([n.text.replace("_", " ") == "generation 1" for n in trace.names])[spans.name])
    since = younger.between(float(full.start_ms[0]), float(full.end_ms[-1]))
    return len(full) > 2 + len(since) / 8


def _between_ms(trace: Trace, full: Spans) -> float:
    return float(full.ms[~starts_in_steady(trace, full)].sum())


def _traced_share(trace: Trace) -> float:
    """The part of the collector's time in steps that also traced a function."""
    column = trace.categories.get(Category.GC)
    at = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    if column is None or not len(at) or not column[trace.steps.steady].sum():
        return 0.0
    traced = np.searchsorted(at, trace.steps.end_ms) > np.searchsorted(at, trace.steps.start_ms)
    return float(column[traced & trace.steps.steady].sum() / column[trace.steps.steady].sum())


def _places(trace: Trace, full: Spans) -> tuple[Place, ...]:
    """Samples taken around the pauses (the sampler cannot run within one), then the loop's costliest line."""
    lines = tuple(line.place for line in trace.loop_lines if line.share > 0.3)
    return tuple(dict.fromkeys((*lines, *sampled_places(trace, full, 5.0)[:1])))[:3]
