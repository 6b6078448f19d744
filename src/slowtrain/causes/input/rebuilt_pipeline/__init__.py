"""The input pipeline, or its iterator, is made anew in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.rebuilt_pipeline import fix
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work, user_loop
from slowtrain.trace.signals.input.input_feed import BATCH_CALL_MS
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

LEAST = 0.5  # iterators a step: fewer are an epoch's
# They hand on what is there, and make nothing.
HANDING = frozenset({"Slices", "Batch", "Prefetch", "Repeat", "Take", "Shuffle"})


@dataclass(frozen=True)
class Made:
    """What a step makes: ``iterators``, of ``data_sets`` that are new; ms of that, and of the lines around them.

    ``making_ms`` are the iterators' own, ``lines_ms`` what Python takes besides in the lines that make and build, and
    ``waiting_ms`` the wait for elements that no function and no file makes: with their data sets it would be gone.
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


class RebuiltPipeline(Cause[Evidence]):
    """Each step makes a data set, or an iterator over one, to take a single batch out of it."""

    title = "The input pipeline is made anew in each step"
    needs = frozenset({Signal.STEPS, Signal.CALLS})

    def find(self, trace: Trace) -> Evidence | None:
        found = _made(trace)
        if found is None:
            return None
        new = found.data_sets >= LEAST
        what = "a data set and an iterator over it are" if new else "an iterator over the same data set is"
        often = "" if round(found.iterators) == 1 else f"{format_number(found.iterators, 2)} times "
        return Evidence(
            f"{what} made {often}in each step: {format_number(found.ms)} of its "
            f"{format_number(trace.step_ms)} ms, {format_number(found.making_ms)} of them for the iterator alone",
            {
                "iterators_per_step": found.iterators,
                "data_sets_per_step": found.data_sets,
                "making_ms": found.making_ms,
                "lines_ms": found.lines_ms,
                "waiting_ms": found.waiting_ms,
            },
            found.where,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _made(trace)
        if found is None:
            return []
        # The arrays still have to become tensors.
        left = max(1 - BATCH_CALL_MS * found.iterators / found.ms, 0.0)
        spared = found.making_ms + found.waiting_ms
        return [Drop({Category.INPUT: left * spared, Category.PYTHON: left * found.lines_ms})]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers["data_sets_per_step"] < LEAST:
            says = "make the iterator once, before the loop: it = iter(ds.repeat()), and next(it) in each turn"
            yield Prescription("edit", Effect.CHANGES_TRAINING, says)
            return
        yield Prescription(
            "edit",
            Effect.EXACT,
            "hand the arrays to the step as they are: it makes tensors of them",
            edits=_listed(trace, evidence),
        )
        says = "or build one data set before the loop, from_generator over what each turn draws, with one iterator"
        yield Prescription("edit", Effect.EXACT, says)


def _made(trace: Trace) -> Made | None:
    """None where iterators last for several steps, or Keras makes them."""
    spans = trace.lane("iterator")
    spans = spans.where(spans.thread == host_work.main_thread(trace))
    spans = spans.where(
        ~host_work.starts_within(spans, trace.events_of("loop")) & host_work.starts_in_steady(trace, spans)
    )
    count = int(trace.steps.steady.sum())
    if not count or len(spans) < LEAST * count:
        return None
    begun, over = trace.steps.start_ms[trace.steps.steady][0], trace.steps.end_ms[trace.steps.steady][-1]
    events = [
        e for e in trace.events_of("iterator") if begun <= e.start_ms < over and not e.data.get("keras") and e.place
    ]
    numbers = {e.data.get("pipeline") for e in events}
    sites = host_work.distinct_places(e.place for e in events)
    built = host_work.distinct_places(w.place for p in trace.pipelines for w in p.written)
    making = host_work.ms_per_step(trace, spans)
    lines = _lines_ms(trace, {*sites, *built}) - making
    data_sets = len(numbers) / len(events) * len(spans) / count if events else 0.0
    handed = all(w.family in HANDING for p in trace.pipelines for w in p.written)
    input_ms = trace.mean(Category.INPUT)
    return Made(
        iterators=len(spans) / count,
        data_sets=data_sets,
        making_ms=min(making, input_ms),
        lines_ms=max(min(lines, trace.mean(Category.PYTHON)), 0.0),
        waiting_ms=max(input_ms - making, 0.0) if data_sets >= LEAST and built and handed else 0.0,
        where=host_work.distinct_places((*sites, *built))[:4],
    )


def _lines_ms(trace: Trace, wanted: set[Place]) -> float:
    """Ms a step of the lines that build data sets and go through them, without the wait for their elements."""
    taken = {p for lane in ("function", "on_batch", "gradient") for p in user_loop.ms_by_line(trace, lane)}
    mine = [line for line in trace.loop_lines if line.place in wanted - taken]
    # Tracing lines makes steps longer: the lines' shares, not their times, are carried over.
    scale = min(trace.step_ms / max(sum(line.ms for line in trace.loop_lines), 1e-9), 1.0)
    asked = user_loop.ms_by_line(trace, "next")
    return scale * sum(line.ms for line in mine) - sum(asked.get(line.place, 0.0) for line in mine)


def _listed(trace: Trace, evidence: Evidence) -> tuple[Edit, ...]:
    """The batch in a list in place of the data set of one line, if all of those that were looked at had one batch."""

    def edit(source: Source, line: int) -> list[Edit]:
        last = [p.written[-1] for p in trace.pipelines if p.written and p.written[-1].place == Place(source.file, line)]
        parts = {len(w.detail.get("element") or ()) for w in last}
        one = len(parts) == 1 and all(w.detail.get("cardinality") == 1 for w in last)
        return fix.listed(source, line, max(parts)) if one else []

    return measured.first(trace, evidence.where, edit)
