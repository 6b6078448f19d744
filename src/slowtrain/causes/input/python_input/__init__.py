"""Python makes the input, under the interpreter lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import find_idle_input_wait, missing_read_signals, waits_for_bytes
from slowtrain.causes.input.python_input import fix
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import (
    HandmadeInput,
    handmade_input,
    input_follows_model,
    is_interpreted,
    only_converts,
    recorded_source,
)
from slowtrain.source.cures import input_edits, measured
from slowtrain.source.cures.input import chunks, generators, quicker
from slowtrain.source.spots.input import slowpython
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work, stalls
from slowtrain.trace.signals.input import dataset_caches, input_feed
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy, Supply, held_up_ms

VECTORISED = 0.05  # of the time of a loop in bytecode, assumed: array code is ten and more times faster
OPS_MS = 0.1  # a call for one element of some dozens of small TensorFlow ops: 0.11 and 0.18 ms in recordings
OPS_HELP = 0.5  # of the time of a loop in bytecode, at the most, is what such ops must take
WAITING = 0.5  # a producer that does not compute for longer than this waits for something: a disk, a network
ASIDE = 8.0  # calls that wait at once, once a cure lets several: assumed, as many as it advises
WHOLE = "make arrays once and use from_tensor_slices, or yield whole batches"
COPIES = 3.0  # of the data while arrays are stacked and become tensors


@dataclass(frozen=True)
class Work:
    """``kind``: samples, loop, once, drawn, beside, work, waits. ``left`` is what a cure leaves of ``ms``.

    ``held_ms``: what the step's own threads wait for the interpreter's lock meanwhile, their batch at hand.
    """

    kind: str
    ms: float
    calls: float
    where: tuple[Place, ...]
    left: float
    share: float = 1.0
    hand: HandmadeInput | None = None
    held_ms: float = 0.0


SAYS = {
    "samples": "hand over one sample at a time, {calls:.0f} calls a batch",
    "loop": "run line by line in the interpreter",
    "once": "do the same work again in every epoch",
    "drawn": "draw every batch anew",
    "beside": "work while the step waits",
    "work": "work on one core",
    "waits": "wait for something and compute nothing meanwhile, nor were bytes read that explain it",
}


class PythonInput(Cause[Evidence]):
    """Batches are made by Python code, one thread at a time, and the step waits for them."""

    title = "Input is made by Python"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PYTHON})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = slowpython.WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        return super().wants(trace) | (missing_read_signals(trace) if _work(trace) is None else frozenset())

    def find(self, trace: Trace) -> Evidence | None:
        work = _work(trace)
        if work is None:
            return None
        hot = f", most of it in line {work.where[0].line}" if work.where else ""
        meanwhile = f"; the step itself waits up to {format_number(work.held_ms)} ms for it" if work.held_ms else ""
        if trace.fact("profile"):  # which tells functions, at best
            hot = f", in {trace.producers[0].qualname}" if trace.producers else ""
        return Evidence(
            f"Python takes {format_number(work.ms)} ms of a {format_number(trace.step_ms)} ms step to make each "
            f"batch{hot}; "
            f"its lines {SAYS[work.kind].format(calls=work.calls)}{meanwhile}",
            {"python_ms": work.ms, "calls_per_step": work.calls, "left_share": work.left, "held_ms": work.held_ms},
            work.where,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        work = _work(trace)
        if work is None:
            return []
        aside = work.kind in ("beside", "waits")
        spread = (0.5, 1.1) if aside or work.kind == "work" else (0.8, 1.1)
        if work.hand is not None:
            return [Drop({Category.PYTHON: work.ms * (1 - work.left)}, 0.0 if aside else 1.0, spread)]
        cured, lock = _cured(trace.pipeline, work), work.held_ms > 0
        if cured is None:
            return [Supply(work.left, work=work.left, share=work.share, lock=lock, spread=spread)]
        return [Supply(pipeline=cured, share=work.share, lock=lock, spread=spread)]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        work = _work(trace)
        kind = work.kind if work else "work"
        node = input_edits.python_node(trace) if work and work.hand is None else None
        if kind == "samples":
            fits = input_edits.fits_in_memory(trace, node, COPIES)
            arrays = measured.first(trace, evidence.where, generators.as_arrays) if fits else ()
            made = arrays or measured.first(trace, evidence.where, chunks.handed_over)
            exact = not (arrays and dataset_caches.is_asked_beyond_end(trace))
            yield Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE, edits=made)
        if node is not None:
            yield from fix.same_again(trace, evidence.where, node)
        if work is not None and work.hand is not None:
            yield from fix.in_lines(trace, evidence.where)
        for effect, says, cure in quicker.cures(evidence.numbers["calls_per_step"], kind):
            made = measured.first(trace, evidence.where, cure)
            if made:
                yield Prescription("edit", effect, says, edits=made)
        if kind != "samples":
            effect, says = quicker.in_words(kind, quicker.hottest(trace, evidence.where), on_jax=trace.on_jax)
            yield Prescription("edit", effect, says)


def _work(trace: Trace) -> Work | None:
    return _in_pipeline(trace) or _in_loop(trace) or _waits(trace)


def _waits(trace: Trace) -> Work | None:
    """Python that computes nothing, and reads too little for a disk to be the reason."""
    found = find_idle_input_wait(trace)
    if found is None or waits_for_bytes(trace, found) is not False:
        return None
    calls = sum(p.calls_per_step for p in input_feed.user_producers(trace))
    hand = handmade_input(trace) if found.by_hand else None
    return Work("waits", found.ms, calls, found.where, max(found.left, 1 / ASIDE), 1.0, hand)


# -- Python behind a tf.data pipeline


def _in_pipeline(trace: Trace) -> Work | None:
    several = input_feed.user_producers(trace)
    ms = sum(p.ms_per_step for p in several)
    busy, wait = input_feed.busy_cores(trace), trace.mean(Category.INPUT)
    held = min(ms, held_up_ms(trace)) if not input_feed.usual_step_waits(trace) else 0.0
    if not several or wait + held < input_feed.MIN_WAIT_SHARE * trace.step_ms or ms < 0.5 * wait:
        return None
    # Python that waits for a core that others took does not wait for the world.
    idle = trace.step_ms * max(1 - busy - stalls.crowding_cores(trace), 0.0) if busy is not None else 0.0
    lines = input_feed.merge_producer_lines(several)
    calls = sum(p.calls_per_step for p in several)
    interpreted = is_interpreted(lines, ms / max(calls, 1e-9))
    if idle > WAITING * min(ms, trace.step_ms) and not interpreted:
        return None
    pipe = trace.pipeline
    hot = [line.place for line in lines[:3]]
    others = [*(p.place for p in several[:2]), *(w.place for w in (pipe.python if pipe else ()))]
    where = host_work.distinct_places((*hot, *source_locations.wrapping_places(trace, hot[:1]), *others))
    kind, left, share = _kind(trace, calls, ms, interpreted, where)
    return Work(kind, ms, calls, where, left, share, held_ms=held)


def _kind(
    trace: Trace, calls: float, ms: float, interpreted: bool, where: tuple[Place, ...]
) -> tuple[str, float, float]:
    """What the Python does, what a cure leaves of its time, and the part of the steps that gain."""
    pipe = trace.pipeline
    epochs = dataset_caches.expected_passes(trace, pipe) if pipe else 1
    random = any((text := recorded_source(trace, p.file)) is not None and text.random_at(p.line) for p in where[:2])
    generated = pipe is None or any(n.name == "Generator" for n in pipe.nodes)
    generated = generated or (pipe is not None and any("python" in w.detail for w in pipe.written))
    ready = min(calls * input_feed.READY_ELEMENT_US / 1e3 / ms, 1.0)
    if calls >= quicker.SAMPLES and generated and not random:
        return "samples", ready, 1.0
    if interpreted:
        # In a map, some tens of TensorFlow ops take over, called for each element; or, where they are hardly
        # quicker, for a whole batch.
        ops = calls * OPS_MS / ms if not generated and calls >= quicker.SAMPLES else 0.0
        return "loop", max(VECTORISED, ops if ops < OPS_HELP else 0.0), 1.0
    if calls >= quicker.SAMPLES and generated:
        return "samples", 0.3, 1.0
    if not random and epochs > 1:
        return "once", ready, 1 - 1 / epochs
    return "work", 1 / max(1 + input_feed.idle_cores(trace), 1.0), 1.0


def _cured(pipe: Pipeline | None, work: Work) -> Pipeline | None:
    """The pipeline with less work in the nodes that run Python; None without counters of them."""
    if pipe is None:
        return None
    changed: list[Node] = []
    for node in pipe.nodes:
        if node.name == "Generator" or (node.written is not None and node.family == "Map" and node.written.python):
            changed.append(replace(node, ms=node.ms * work.left))
        elif (
            work.kind == "samples"
            and node.family == "Map"
            and node.written
            and input_feed.can_take_batches(node.written)
        ):
            # Whole batches arrive: the maps behind are called once for each.
            changed.append(
                replace(
                    node, ms=min(node.ms, input_feed.BATCH_CALL_MS + work.calls * input_feed.READY_ELEMENT_US / 1e3)
                )
            )
        elif work.kind == "samples" and node.family == "FlatMap":
            changed.append(replace(node, ms=0.0))
    return pipe.changed(*changed) if any(n.ms > 0 for n in pipe.nodes) and changed else None


# -- Python in the loop itself


def _in_loop(trace: Trace) -> Work | None:
    hand = handmade_input(trace)
    if hand is None or hand.ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or hand.waiting > WAITING:
        return None
    if not hand.interpreted and (input_follows_model(trace) or only_converts(trace, hand)):
        return None
    found = hand.feeding
    rest = trace.step_ms - hand.ms
    if hand.interpreted:
        kind, left = "loop", VECTORISED
    elif found.random and not found.data:
        kind, left = "drawn", VECTORISED
    elif not found.random and found.repeated:
        kind, left = "once", VECTORISED
    else:
        # In a thread beside the step as much is hidden as the step is long and cores are idle.
        kind, left = "beside", 1 - min(rest * min(input_feed.idle_cores(trace), 1.0) / hand.ms, 1.0)
    return Work(kind, hand.ms, 1.0, hand.where, left, 1.0, hand)
