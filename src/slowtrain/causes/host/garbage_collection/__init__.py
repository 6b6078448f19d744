"""Garbage collection pauses the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.spans import Spans
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import sampled_places, starts_in_steady, starts_in_windows
from slowtrain.whatif import Drop, Remedy, Skip

FULL_COLLECTION = "generation 2"
MIN_FULL_COLLECTIONS = 3  # one or two are the interpreter's own after start-up
MAX_TRACED_SHARE = 0.5  # of the collector's time: above it tracing is the cause


class CollectionFinding(Struct, frozen=True):
    """Full collections of the training thread, and whether the script requests them."""

    full: Spans
    are_requested: bool
    places: tuple[Place, ...]  # empty unless they are requested
    requested_between_ms: float  # outside steady steps; 0 unless they are requested


class GarbageCollection(Cause[CollectionFinding]):
    """Python's garbage collector pauses the steps."""

    title = "Garbage collection pauses the steps"
    needs = frozenset({Signal.STEPS, Signal.GC})
    words = ("gc.collect", "collect")

    def find(self, trace: Trace) -> CollectionFinding | None:
        full = _full_collections(trace)
        if len(full) < MIN_FULL_COLLECTIONS:
            return None
        between_ms = _between_ms(trace, full)
        if (trace.mean(Category.GC) <= 0 and not between_ms) or _traced_share(trace) > MAX_TRACED_SHARE:
            return None
        are_requested = _are_requested(trace, full)
        if not are_requested:
            return CollectionFinding(full, are_requested=False, places=(), requested_between_ms=0.0)
        return CollectionFinding(full, are_requested, _collection_places(trace, full), between_ms)

    def evidence(self, trace: Trace, finding: CollectionFinding) -> Evidence:
        full = finding.full
        ms, each = trace.mean(Category.GC), float(full.ms.mean())
        who = "requested by the script" if finding.are_requested else "started by Python itself"
        return Evidence(
            f"{len(full)} full collections, {who}, {each:.0f} ms each: "
            f"{format_number(ms)} ms of each step of {format_number(trace.step_ms)} ms",
            {"gc_ms": ms, "full_collections": float(len(full)), "full_ms": each, "asked": float(finding.are_requested)},
            finding.places,
        )

    def remedies(self, trace: Trace, finding: CollectionFinding) -> Sequence[Remedy]:
        # gc.freeze() spares walking the frozen objects. New objects are still walked.
        spread = (0.9, 1.05) if finding.are_requested else (0.5, 1.0)
        drop = Drop({Category.GC: trace.mean(Category.GC)}, spread=spread)
        between_ms = finding.requested_between_ms
        return [drop, Skip(between_ms, spread=(0.9, 1.05))] if between_ms else [drop]

    def scope_in(self, trace: Trace, finding: CollectionFinding) -> str:
        return "step" if trace.mean(Category.GC) * trace.steps.count >= finding.requested_between_ms else "run"


def _full_collections(trace: Trace) -> Spans:
    """Full collections of the training thread from the first steady step on, outside profiler windows."""
    spans = trace.lane("gc")
    if not len(spans) or not trace.steps.steady.any():
        return Spans()
    main = trace.main
    text = np.array([n.text.replace("_", " ") == FULL_COLLECTION for n in trace.names])[spans.name]
    steady = trace.steps.steady
    first, last = float(trace.steps.start_ms[steady][0]), float(trace.steps.end_ms[-1])
    keep = text & (spans.thread == main) & (spans.start_ms >= first) & (spans.start_ms <= last)
    return spans.where(keep & ~starts_in_windows(trace, spans))


def _are_requested(trace: Trace, full: Spans) -> bool:
    """Whether full collections exceed the interpreter's rule, one for ten of the generation below."""
    spans = trace.lane("gc")
    younger = spans.where(np.array([n.text.replace("_", " ") == "generation 1" for n in trace.names])[spans.name])
    since = younger.starting_between(float(full.start_ms[0]), float(full.end_ms[-1]))
    return len(full) > 2 + len(since) / 8


def _between_ms(trace: Trace, full: Spans) -> float:
    return float(full.ms[~starts_in_steady(trace, full)].sum())


def _traced_share(trace: Trace) -> float:
    """The share of the collector's time in steps that also traced a function."""
    column = trace.categories.get(Category.GC)
    at = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    if column is None or not len(at) or not column[trace.steps.steady].sum():
        return 0.0
    traced = np.searchsorted(at, trace.steps.end_ms) > np.searchsorted(at, trace.steps.start_ms)
    return float(column[traced & trace.steps.steady].sum() / column[trace.steps.steady].sum())


def _collection_places(trace: Trace, full: Spans) -> tuple[Place, ...]:
    """The loop's costliest lines, then samples around the pauses. The sampler cannot run within a pause."""
    lines = tuple(line.place for line in trace.loop_lines if line.share > 0.3)
    return tuple(dict.fromkeys((*lines, *sampled_places(trace, full, 5.0)[:1])))[:3]
