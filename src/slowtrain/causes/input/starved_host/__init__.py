"""Input that is written well, on too few cores or threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import find_idle_input_wait
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import (
    busy_cores,
    calls_per_batch,
    idle_cores,
    is_user_node,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Supply

BUSY = 0.85  # of the cores: the scheduler and other processes leave no more
ALONE = 1.4  # calls under way at once: a pool of one thread, measured
LONG_US = 200.0  # shorter calls are mostly the price of calling, which a node's own time does not hold
AUTOTUNE = -1  # tf.data.AUTOTUNE
LEAST_IDLE = 0.4  # of a core: enough to say that the threads, not the cores, are few


@dataclass(frozen=True)
class Starved:
    """``width`` calls were asked for at once, ``under_way`` were. ``pool``: threads are few, else cores are.

    ``at_once``: so many could be under way with as many threads as it asks for.
    """

    node: Node
    width: float
    under_way: float
    pool: bool
    where: tuple[Place, ...]
    at_once: float


class StarvedHost(Cause[Evidence]):
    """The input runs in parallel as it should, but there are too few cores or threads for it."""

    title = "Too few cores or threads for the input"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    symptoms = frozenset({Category.INPUT})
    words = ("private_threadpool_size", "experimental_threading")

    def find(self, trace: Trace) -> Evidence | None:
        found = _starved(trace)
        if found is None:
            return None
        busy = busy_cores(trace) or 0.0
        if found.pool:
            says = (
                f"{found.width:g} calls at once are asked for and {format_number(found.under_way, 2)} are under way, "
            )
        else:
            says = f"{found.width:g} calls at once make the input, "
        return Evidence(
            f"{says}{format_number(busy, 2)} of {trace.cores:g} cores are busy; "
            f"a batch needs {format_number(found.node.ms)} ms of work",
            {"parallelism": found.width, "under_way": found.under_way, "busy_cores": busy, "cores": trace.cores},
            (*_limits(trace, found), *found.where),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _starved(trace)
        if found is None:
            return []
        if found.pool:
            factor = found.under_way / found.at_once
            return [Supply(max(min(factor, 1.0), 0.05), spread=(0.6, 1.1))]
        # One core more, for what one core gives: no change of the script gives it.
        return [Supply(trace.cores / (trace.cores + 1), work=1.0, spread=(0.3, 1.2))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers.get("under_way", 2.0) < ALONE:
            found = measured.first(trace, evidence.where, datasets.threads_freed)
            says = "remove the limit on the data set's threads (private_threadpool_size)"
            written = trace.pipeline.written if trace.pipeline is not None else ()
            # Threads draw beside each other: which element a random number is for depends on who comes first.
            drawn = any(w.random or (w.family == "Map" and not w.ops) for w in written)
            yield Prescription("edit", Effect.EQUIVALENT if drawn else Effect.EXACT, says, edits=found)
            if not found and (free := measured.first(trace, evidence.where, datasets.unordered)):
                # Nothing limits its threads: in order, calls that are done wait for the slow one in front of them.
                says = "take elements as they are ready, not in their order (deterministic=False)"
                yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=free)
        yield Prescription(
            "advice", Effect.EXACT, "give the process more cores, or its input less work for each element"
        )


def _starved(trace: Trace) -> Starved | None:
    pipe, busy = waited_pipeline(trace), busy_cores(trace)
    if pipe is None or busy is None:
        return None
    few = _threads(trace)
    # Python computes in one thread at a time, but any number of threads can wait, and need no core for it.
    waits = few is not None and find_idle_input_wait(trace) is not None
    for node in slowest_stage_nodes(pipe)[:2]:
        width = node.parallelism or 1.0
        if few is not None and node.written is not None and node.written.detail.get("parallel") == AUTOTUNE:
            width = max(width, trace.cores)  # the tuner gives no more than the pool has threads
        if width < 2 or not is_user_node(node) or node.written is None or (node.written.python and not waits):
            continue
        at_once = width if waits else min(width, trace.cores)
        under_way = node.ms / trace.step_ms
        limits = tuple(w.place for w in pipe.written if w.op == "OptionsDataset" and w.place)
        where = (*limits, *user_lines(node))
        long = 1e3 * node.ms >= LONG_US * calls_per_batch(pipe, node)
        if few is not None and few < at_once and idle_cores(trace) >= LEAST_IDLE:
            return Starved(node, width, min(under_way, few), True, where, at_once)
        if long and 1 / ALONE <= under_way <= ALONE and idle_cores(trace) >= LEAST_IDLE and width * 0.7 > under_way:
            return Starved(node, width, under_way, True, where, at_once)
        if busy >= BUSY * trace.cores and width >= trace.cores:
            return Starved(node, width, under_way, False, where, at_once)
    return None


def _threads(trace: Trace) -> int | None:
    """Threads that the user's options leave the pipeline; None where they say nothing."""
    written = trace.pipeline.written if trace.pipeline else ()
    given = (written[-1].detail.get("options") or {}).get("private_threads") if written else None
    return int(given) if given else None


def _limits(trace: Trace, found: Starved) -> tuple[Place, ...]:
    """Where the script sets the limit itself: the line to change."""
    if not found.pool or found.under_way >= ALONE:
        return ()
    freed = measured.first(trace, found.where, datasets.threads_freed)
    return tuple(Place(edit.file, edit.start[0]) for edit in freed)
