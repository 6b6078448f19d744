"""The input pipeline, or its iterator, is built again in each step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.input_feed import BATCH_CALL_MS
from slowtrain.whatif import Drop, Remedy

MIN_ITERATORS = 0.5  # a step: fewer are an epoch's
PASSING_FAMILIES = frozenset({"Slices", "Batch", "Prefetch", "Repeat", "Take", "Shuffle"})  # they compute no elements


class RebuiltPipelineFinding(Struct, frozen=True):
    """What a step builds: ``iterators``, over ``data_sets`` that are new, and the ms of that.

    ``making_ms`` is the time of the iterators, ``lines_ms`` the rest of Python's time in the lines that build them.
    ``waiting_ms`` is the wait for elements that no function and no file makes: it goes away with their data sets.
    """

    iterators: float
    data_sets: float
    making_ms: float
    lines_ms: float
    waiting_ms: float
    where: tuple[Place, ...]

    @property
    def ms(self) -> float:
        return self.making_ms + self.lines_ms + self.waiting_ms

    @property
    def builds_data_sets(self) -> bool:
        return self.data_sets >= MIN_ITERATORS


class RebuiltPipeline(Cause[RebuiltPipelineFinding]):
    """Each step makes a data set, or an iterator over one, to take a single batch out of it."""

    title = "The input pipeline is built again in each step"
    needs = frozenset({Signal.STEPS, Signal.CALLS})
    words = ("iter",)

    def find(self, trace: Trace) -> RebuiltPipelineFinding | None:
        """None if iterators last for several steps, or Keras makes them."""
        spans = trace.lane("iterator")
        spans = spans.where(spans.thread == trace.main)
        spans = spans.where(
            ~host_work.starts_within(spans, trace.events_of("loop")) & host_work.starts_in_steady(trace, spans)
        )
        steps = int(trace.steps.steady.sum())
        if not steps or len(spans) < MIN_ITERATORS * steps:
            return None
        events = _iterator_events(trace)
        new_per_iterator = len({e.data.get("pipeline") for e in events}) / len(events) if events else 0.0
        sites = host_work.distinct_places(e.place for e in events)
        built = host_work.distinct_places(w.place for p in trace.pipelines for w in p.written)
        data_sets = new_per_iterator * len(spans) / steps
        making, input_ms = host_work.ms_per_step(trace, spans), trace.mean(Category.INPUT)
        lines = _building_lines_ms(trace, {*sites, *built}) - making
        passes_on = all(w.family in PASSING_FAMILIES for p in trace.pipelines for w in p.written)
        no_work = data_sets >= MIN_ITERATORS and built and passes_on
        return RebuiltPipelineFinding(
            iterators=len(spans) / steps,
            data_sets=data_sets,
            making_ms=min(making, input_ms),
            lines_ms=max(min(lines, trace.mean(Category.PYTHON)), 0.0),
            waiting_ms=max(input_ms - making, 0.0) if no_work else 0.0,
            where=host_work.distinct_places((*sites, *built))[:4],
        )

    def evidence(self, trace: Trace, finding: RebuiltPipelineFinding) -> Evidence:
        both, one = "a data set and an iterator over it are", "an iterator over the same data set is"
        times = "" if round(finding.iterators) == 1 else f"{format_number(finding.iterators, 2)} times "
        return Evidence(
            f"{both if finding.builds_data_sets else one} made {times}in each step: {format_number(finding.ms)} of its "
            f"{format_number(trace.step_ms)} ms, {format_number(finding.making_ms)} of them for the iterator alone",
            {
                "iterators_per_step": finding.iterators,
                "data_sets_per_step": finding.data_sets,
                "making_ms": finding.making_ms,
                "lines_ms": finding.lines_ms,
                "waiting_ms": finding.waiting_ms,
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: RebuiltPipelineFinding) -> Sequence[Remedy]:
        # The arrays still have to become tensors.
        gain = max(1 - BATCH_CALL_MS * finding.iterators / finding.ms, 0.0)
        spared = finding.making_ms + finding.waiting_ms
        return [Drop({Category.INPUT: gain * spared, Category.PYTHON: gain * finding.lines_ms})]


def _iterator_events(trace: Trace) -> list[Event]:
    """The script's own iterators that were made during the steady steps."""
    begin, end = trace.steps.start_ms[trace.steps.steady][0], trace.steps.end_ms[trace.steps.steady][-1]
    return [e for e in trace.events_of("iterator") if begin <= e.start_ms < end and not e.data.get("keras") and e.place]


def _building_lines_ms(trace: Trace, wanted: set[Place]) -> float:
    """Ms a step of the lines that build data sets and iterate over them, without the wait for their elements."""
    others = {p for lane in ("function", "on_batch", "gradient") for p in host_work.ms_by_line(trace, lane)}
    building = [line for line in trace.loop_lines if line.place in wanted - others]
    # Tracing lines makes steps longer, so the lines' shares count, not their times.
    scale = min(trace.step_ms / max(sum(line.ms for line in trace.loop_lines), 1e-9), 1.0)
    waits = host_work.ms_by_line(trace, "next")
    return scale * sum(line.ms for line in building) - sum(waits.get(line.place, 0.0) for line in building)
