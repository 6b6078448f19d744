"""Parallel input on too few cores or threads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import find_idle_input_wait
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import (
    busy_cores,
    calls_per_batch,
    idle_cores,
    is_user_node,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

MIN_BUSY_SHARE = 0.85  # of the cores: the scheduler and other processes leave no more
MAX_SINGLE_CALLS = 1.4  # calls under way at once: measured with a pool of one thread
MIN_WORKING_CALL_US = 200.0  # shorter calls are mostly overhead, which a node's own time does not include
AUTOTUNE = -1  # tf.data.AUTOTUNE
MIN_IDLE_CORES_FOR_THREADS = 0.4  # enough to show that there are too few threads, not too few cores
MAX_WIDTH_SHARE = 0.7  # of the calls that were asked for: with more under way the pool has enough threads


class StarvedNode(Struct, frozen=True):
    """``width`` calls at once were asked for, ``under_way`` ran.

    ``few_threads``: there are too few threads, else too few cores. ``max_calls`` could run at once with as many threads
    as the node asks for.
    """

    node: Node
    width: float
    under_way: float
    few_threads: bool
    where: tuple[Place, ...]
    max_calls: float

    @property
    def runs_single_calls(self) -> bool:
        return self.under_way < MAX_SINGLE_CALLS


class StarvedHost(Cause[StarvedNode]):
    """The input runs in parallel as it should, but there are too few cores or threads for it."""

    title = "Too few cores or threads for the input"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    symptoms = frozenset({Category.INPUT})
    words = ("private_threadpool_size", "experimental_threading")

    def find(self, trace: Trace) -> StarvedNode | None:
        pipe, busy = waited_pipeline(trace), busy_cores(trace)
        if pipe is None or busy is None:
            return None
        for node in slowest_stage_nodes(pipe)[:2]:
            found = _starved_node(trace, pipe, node, busy)
            if found is not None and found.few_threads and found.runs_single_calls:
                return replace(found, where=(*self.lines_to_change(trace, found), *found.where))
            if found is not None:
                return found
        return None

    def evidence(self, trace: Trace, finding: StarvedNode) -> Evidence:
        busy = busy_cores(trace) or 0.0
        under_way = f" are asked for and {format_number(finding.under_way, 2)} are under way"
        says = f"{finding.width:g} calls at once{under_way if finding.few_threads else ' make the input'}, "
        return Evidence(
            f"{says}{format_number(busy, 2)} of {trace.cores:g} cores are busy; "
            f"a batch needs {format_number(finding.node.ms)} ms of work",
            {"parallelism": finding.width, "under_way": finding.under_way, "busy_cores": busy, "cores": trace.cores},
            finding.where,
        )

    def remedies(self, trace: Trace, finding: StarvedNode) -> Sequence[Remedy]:
        if finding.few_threads:
            factor = finding.under_way / finding.max_calls
            return [Supply(max(min(factor, 1.0), 0.05), spread=(0.6, 1.1))]
        if trace.on_accelerator:
            # As many cores again: workers of tf.data service on another computer take half of the work.
            return [Supply(0.5, work=0.5, spread=(0.3, 1.1))]
        # The gain of one core more, which no change of the script gives. The training needs the same cores.
        return [Supply(trace.cores / (trace.cores + 1), work=1.0, spread=(0.3, 1.2))]


def _starved_node(trace: Trace, pipe: Pipeline, node: Node, busy: float) -> StarvedNode | None:
    """None if it has as many cores and threads as it can use."""
    threads = _private_threads(trace)
    # Python computes in one thread at a time, but any number of threads can wait, and need no core for it.
    waits = threads is not None and find_idle_input_wait(trace) is not None
    width = node.parallelism or 1.0
    if threads is not None and node.written is not None and node.written.detail.get("parallel") == AUTOTUNE:
        width = max(width, trace.cores)  # the tuner gives no more than the pool has threads
    if width < 2 or not is_user_node(node) or node.written is None or (node.written.python and not waits):
        return None
    max_calls = width if waits else min(width, trace.cores)
    under_way = node.ms / trace.step_ms
    limits = tuple(w.place for w in pipe.written if w.op == "OptionsDataset" and w.place)
    where = (*limits, *user_lines(node))
    idle = idle_cores(trace) >= MIN_IDLE_CORES_FOR_THREADS
    if threads is not None and threads < max_calls and idle:
        return StarvedNode(node, width, min(under_way, threads), True, where, max_calls)
    is_long = 1e3 * node.ms >= MIN_WORKING_CALL_US * calls_per_batch(pipe, node)
    single = 1 / MAX_SINGLE_CALLS <= under_way <= MAX_SINGLE_CALLS
    if is_long and single and idle and width * MAX_WIDTH_SHARE > under_way:
        return StarvedNode(node, width, under_way, True, where, max_calls)
    if busy >= MIN_BUSY_SHARE * trace.cores and width >= trace.cores:
        return StarvedNode(node, width, under_way, False, where, max_calls)
    return None


def _private_threads(trace: Trace) -> int | None:
    """Threads that the user's options give the pipeline; None if they do not limit them."""
    written = trace.pipeline.written if trace.pipeline else ()
    given = (written[-1].detail.get("options") or {}).get("private_threads") if written else None
    return int(given) if given else None
