"""Python makes the input, one thread at a time because of the interpreter lock."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import find_idle_input_wait, missing_read_signals, waits_for_bytes
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import (
    handmade_input,
    input_follows_model,
    is_interpreted,
    only_converts,
    recorded_source,
)
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed
from slowtrain.trace.signals.host import host_work, stalls
from slowtrain.whatif import Drop, Remedy, Supply, held_up_ms

SAYS_BY_KIND = {
    "samples": "return one sample at a time, {calls:.0f} calls a batch",
    "loop": "run line by line in the interpreter",
    "once": "do the same work again in every epoch",
    "drawn": "draw every batch again",
    "beside": "work while the step waits",
    "work": "work on one core",
    "waits": "wait for something and compute nothing meanwhile, and the bytes read do not explain it",
}
CALLS_AT_ONCE = 8.0  # assumed, as many as the cure advises: calls that wait at the same time
OPS_CALL_MS = 0.1  # a call for one element of some dozens of small TensorFlow ops: 0.11 and 0.18 ms in recordings
MAX_OPS_SHARE = 0.5  # of the time of a loop in bytecode: TensorFlow ops that take more are no cure
DRAWN_SAMPLES_LEFT = 0.3  # assumed: arrays still have to be drawn
MIN_LOOP_SHARE = 0.05  # array code leaves of the time of a loop in bytecode; assumed: it is ten and more times faster
MAX_WAITING_SHARE = 0.5  # Python that is idle for longer waits for something, such as a disk or a network


class PythonWork(Struct, frozen=True):
    """Python that takes ``ms`` in ``calls`` calls for each batch; a cure leaves ``left_share`` of it.

    ``kind``: samples, loop, once, drawn, beside, work or waits. ``steps_share``: the part of the steps that gain.
    ``in_loop``: the training loop's own lines make the batch. ``held_ms``: what the step's own threads wait for the
    interpreter lock although their batch is ready.
    """

    kind: str
    ms: float
    calls: float
    where: tuple[Place, ...]
    left_share: float
    steps_share: float = 1.0
    in_loop: bool = False
    held_ms: float = 0.0


class PythonInput(Cause[PythonWork]):
    """Batches are made by Python code, one thread at a time, and the step waits for them."""

    title = "Input is made by Python"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PYTHON})
    cured_by_packing = True
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = (
        "from_generator", "numpy_function", "py_function", "PyDataset", "utils.Sequence", "utils import Sequence",
        "data_utils import Sequence", ", Sequence", "fit_generator", "yield", "__next__", "ImageDataGenerator",
    )  # fmt: skip

    def wants(self, trace: Trace) -> frozenset[Signal]:
        is_unknown = trace.compute_once(_python_work) is None
        return super().wants(trace) | (missing_read_signals(trace) if is_unknown else frozenset())

    def find(self, trace: Trace) -> PythonWork | None:
        return trace.compute_once(_python_work)

    def evidence(self, trace: Trace, finding: PythonWork) -> Evidence:
        held_ms = finding.held_ms
        hot = f", most of it in line {finding.where[0].line}" if finding.where else ""
        if trace.fact("profile"):  # a profile has functions at best, no lines
            hot = f", in {trace.producers[0].qualname}" if trace.producers else ""
        meanwhile = f"; the step itself waits up to {format_number(held_ms)} ms for it" if held_ms else ""
        return Evidence(
            f"Python takes {format_number(finding.ms)} ms of a {format_number(trace.step_ms)} ms step to make each "
            f"batch{hot}; its lines {SAYS_BY_KIND[finding.kind].format(calls=finding.calls)}{meanwhile}",
            {
                "python_ms": finding.ms,
                "calls_per_step": finding.calls,
                "left_share": finding.left_share,
                "held_ms": held_ms,
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: PythonWork) -> Sequence[Remedy]:
        left, steps = finding.left_share, finding.steps_share
        runs_beside = finding.kind in ("beside", "waits")
        spread = (0.5, 1.1) if runs_beside or finding.kind == "work" else (0.8, 1.1)
        if finding.in_loop:
            return [Drop({Category.PYTHON: finding.ms * (1 - left)}, 0.0 if runs_beside else 1.0, spread)]
        cured, lock = _cured_pipeline(trace.pipeline, finding), finding.held_ms > 0
        if cured is None:
            return [Supply(left, work=left, share=steps, lock=lock, spread=spread)]
        return [Supply(pipeline=cured, share=steps, lock=lock, spread=spread)]


def _python_work(trace: Trace) -> PythonWork | None:
    return _pipeline_work(trace) or _loop_work(trace) or _waiting_work(trace)


def _loop_work(trace: Trace) -> PythonWork | None:
    """The lines of the loop that make its batches, if they compute."""
    hand = handmade_input(trace)
    if hand is None or hand.ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or hand.waiting > MAX_WAITING_SHARE:
        return None
    if not hand.is_interpreted and (input_follows_model(trace) or only_converts(trace, hand)):
        return None
    feeding = hand.feeding
    if hand.is_interpreted:
        kind, left_share = "loop", MIN_LOOP_SHARE
    elif feeding.random and not feeding.data:
        kind, left_share = "drawn", MIN_LOOP_SHARE
    elif not feeding.random and feeding.repeated:
        kind, left_share = "once", MIN_LOOP_SHARE
    else:
        # A thread beside the step hides as much as the rest of the step is long, if a core is idle.
        rest_ms = trace.step_ms - hand.ms
        kind, left_share = "beside", 1 - min(rest_ms * min(input_feed.idle_cores(trace), 1.0) / hand.ms, 1.0)
    return PythonWork(kind, hand.ms, 1.0, hand.where, left_share, in_loop=True)


def _waiting_work(trace: Trace) -> PythonWork | None:
    """Python that computes nothing and reads too few bytes for a disk to be the reason."""
    found = find_idle_input_wait(trace)
    if found is None or waits_for_bytes(trace, found) is not False:
        return None
    calls = sum(p.calls_per_step for p in input_feed.user_producers(trace))
    left_share = max(found.left, 1 / CALLS_AT_ONCE)
    in_loop = found.by_hand and handmade_input(trace) is not None
    return PythonWork("waits", found.ms, calls, found.where, left_share, in_loop=in_loop)


def _pipeline_work(trace: Trace) -> PythonWork | None:
    """The Python of a pipeline that the steps wait for, or that holds the interpreter lock while they run."""
    producers = input_feed.user_producers(trace)
    ms = sum(p.ms_per_step for p in producers)
    wait = trace.mean(Category.INPUT)
    held_ms = min(ms, held_up_ms(trace)) if not input_feed.usual_step_waits(trace) else 0.0
    if not producers or wait + held_ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or ms < 0.5 * wait:
        return None
    lines = input_feed.merge_producer_lines(producers)
    calls = sum(p.calls_per_step for p in producers)
    interpreted = is_interpreted(lines, ms / max(calls, 1e-9))
    if _idle_ms(trace) > MAX_WAITING_SHARE * min(ms, trace.step_ms) and not interpreted:
        return None
    pipe = trace.pipeline
    hot = [line.place for line in lines[:3]]
    others = [*(p.place for p in producers[:2]), *(w.place for w in (pipe.python if pipe else ()))]
    where = host_work.distinct_places((*hot, *source_places.wrapping_places(trace, hot[:1]), *others))
    kind, left_share, steps_share = _kind_and_gain(trace, calls, ms, interpreted, where)
    return PythonWork(kind, ms, calls, where, left_share, steps_share, held_ms=held_ms)


def _idle_ms(trace: Trace) -> float:
    """Ms a step without processor time. Python that waits for a core that others took is not idle."""
    busy = input_feed.busy_cores(trace)
    return trace.step_ms * max(1 - busy - stalls.crowding_cores(trace), 0.0) if busy is not None else 0.0


def _kind_and_gain(
    trace: Trace, calls: float, ms: float, interpreted: bool, where: tuple[Place, ...]
) -> tuple[str, float, float]:
    """What the Python does, the share of its time that a cure leaves, and the part of the steps that gain."""
    pipe = trace.pipeline
    epochs = input_feed.expected_passes(trace, pipe) if pipe else 1
    random = any((text := recorded_source(trace, p.file)) is not None and text.random_at(p.line) for p in where[:2])
    is_generator = pipe is None or any(n.name == "Generator" for n in pipe.nodes)
    is_generator = is_generator or (pipe is not None and any("python" in w.detail for w in pipe.written))
    ready = min(calls * input_feed.READY_ELEMENT_US / 1e3 / ms, 1.0)
    if calls >= input_feed.MIN_SAMPLE_CALLS and is_generator and not random:
        return "samples", ready, 1.0
    if interpreted:
        # In a map, some tens of TensorFlow ops take over. They are called for each element; or for a whole batch, if
        # they are hardly faster than the loop.
        ops = calls * OPS_CALL_MS / ms if not is_generator and calls >= input_feed.MIN_SAMPLE_CALLS else 0.0
        return "loop", max(MIN_LOOP_SHARE, ops if ops < MAX_OPS_SHARE else 0.0), 1.0
    if calls >= input_feed.MIN_SAMPLE_CALLS and is_generator:
        return "samples", DRAWN_SAMPLES_LEFT, 1.0
    if not random and epochs > 1:
        return "once", ready, 1 - 1 / epochs
    return "work", 1 / max(1 + input_feed.idle_cores(trace), 1.0), 1.0


def _cured_pipeline(pipe: Pipeline | None, work: PythonWork) -> Pipeline | None:
    """The pipeline with less work in the nodes that run Python; None if they have no counters."""
    if pipe is None:
        return None
    changed = [cured for node in pipe.nodes if (cured := _cured_node(node, work)) is not None]
    return pipe.with_nodes(*changed) if any(n.ms > 0 for n in pipe.nodes) and changed else None


def _cured_node(node: Node, work: PythonWork) -> Node | None:
    if node.name == "Generator" or (node.written is not None and node.family == "Map" and node.written.python):
        return replace(node, ms=node.ms * work.left_share)
    if work.kind != "samples":
        return None
    if node.family == "Map" and node.written and input_feed.can_take_batches(node.written):
        # Whole batches arrive: the maps behind are called once for each.
        batch_ms = input_feed.BATCH_CALL_MS + work.calls * input_feed.READY_ELEMENT_US / 1e3
        return replace(node, ms=min(node.ms, batch_ms))
    return replace(node, ms=0.0) if node.family == "FlatMap" else None
