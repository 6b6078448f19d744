"""An op is written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.arrays import median_value
from slowtrain.columns.device import Line
from slowtrain.columns.input_pipeline import PYTHON_OPS
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import handmade_input_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound
from slowtrain.trace.signals.host.host_work import lane_places
from slowtrain.trace.signals.host.source_lines import changes_variables
from slowtrain.whatif import Drop, Remedy, Skip

MIN_ITERATIONS = 500  # in each step
MIN_LOOP_SHARE = 0.3  # of the host's time in the step
SAVED_PYTHON_SHARE = 0.9  # of the time of a Python loop or function
MAX_LINES_APART = 2  # between a line of the loop and one that makes input or reads back
SAVED_PRODUCT_SHARE = 0.98  # of the products' time
MIN_SIMILAR_OPS = 60  # similar ops from one line; starting fewer takes too little time to matter
# Share of the ops' computing that the one op still takes. The scripts store_sales and texture_filters of clinic/, on
# two machines: 0.15 to 0.33. With the sums of their gradients, ski_rentals, bud_break and compressor_station: 0.05 to
# 0.14.
LEFT_SHARE = 0.15
STARTS_SAVED_SHARE = 0.95  # of the time to start the ops
LOOP_SPREAD = (0.5, 1.3)
PRODUCT_SPREAD = (0.75, 1.1)
# Share of a line's ops that the line makes itself. A line with less calls layers, which are separate ops.
MIN_OWN_OP_SHARE = 0.5
MAX_CHAINED_SHARE = 0.3  # of the similar ops, each of which needs the one before: no single op replaces these
ADD_OP = re.compile(r"add(?:_\d+)?$")


class CodeKind(Enum):
    """What one op could replace."""

    ONE_HOT_PRODUCT = "products with one-hot rows, forward and backward: a lookup needs none of them"
    UNROLLED_LOOP = "many independent, similar ops from one line"
    GRAPH_LOOP = "a loop in the graph with independent iterations, as tf.map_fn makes it"
    PYTHON_CALLBACK = "the training graph calls back into Python"
    EAGER_LOOP = "a Python loop with hundreds of iterations in each eager step"


class HandwrittenCode(Struct, frozen=True):
    """Code of one kind in words, and the ms per step that one op saves, by category.

    ``op_share``: of op time, for products. ``compile_ms``: of the run, in which XLA compiles the ops of an unrolled
    loop.
    """

    kind: CodeKind
    says: str
    saved: Mapping[Category, float]
    where: tuple[Place, ...]
    ops: float = 0.0
    op_share: float = 0.0
    compile_ms: float = 0.0

    @property
    def saved_ms(self) -> float:
        return sum(self.saved.values())


class HandwrittenOp(Cause[HandwrittenCode]):
    """Code computes step by step what one TensorFlow op computes."""

    title = "An op is written by hand"
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.TRACES, Signal.LINES})  # the graph with its source lines
    words = ("one_hot", "add_weight", "map_fn", "GradientTape", ".fit")

    def find(self, trace: Trace) -> HandwrittenCode | None:
        """The kind of code that costs most."""
        finders = (_one_hot_product, _unrolled_loop, _graph_loop, _python_callback, _eager_loop)
        known = [found for find in finders if (found := find(trace)) is not None]
        worst = max(known, key=lambda found: found.saved_ms, default=None)
        if worst is None or worst.kind is not CodeKind.UNROLLED_LOOP:
            return worst
        return replace(worst, where=source_places.merge_places(self.lines_to_change(trace, worst), worst.where))

    def evidence(self, trace: Trace, finding: HandwrittenCode) -> Evidence:
        numbers = {str(category): ms for category, ms in finding.saved.items()}
        if finding.kind is CodeKind.ONE_HOT_PRODUCT:
            numbers["op_share"] = finding.op_share
        elif finding.ops:
            numbers["ops"] = finding.ops
        if finding.kind is CodeKind.UNROLLED_LOOP:
            numbers["compile_ms"] = finding.compile_ms
        return Evidence(finding.says, numbers, finding.where)

    def remedies(self, trace: Trace, finding: HandwrittenCode) -> Sequence[Remedy]:
        if finding.kind is CodeKind.ONE_HOT_PRODUCT:
            saved = op_work.ms_of_streaming_ops(trace, finding.op_share, finding.saved_ms)
            return [Drop(saved, spread=PRODUCT_SPREAD)]
        saved = dict(finding.saved)
        is_in_graph = finding.kind in (CodeKind.UNROLLED_LOOP, CodeKind.GRAPH_LOOP)
        if is_in_graph and trace.step_ms and not trace.on_accelerator:
            saved = op_work.ms_with_warm_caches(trace, saved, finding.saved_ms / trace.step_ms)
        compiling = [Skip(finding.compile_ms, step_bound.COMPILE_SPREAD)] if finding.compile_ms else []
        return [Drop(saved, spread=LOOP_SPREAD), *compiling]

    def scope_in(self, trace: Trace, finding: HandwrittenCode) -> str:
        """The run, if compiling the loop's ops costs more than all steps."""
        return "run" if finding.compile_ms > finding.saved_ms * len(trace.steps) else "step"


def _eager_loop(trace: Trace) -> HandwrittenCode | None:
    """A loop that neither reads values back nor makes input. Such loops belong to other causes."""
    if not trace.eager:
        return None
    excluded = {p for lane in ("readback", "feed", "next") for p in lane_places(trace, lane)}
    input_places = handmade_input_places(trace)
    frequent = [line for line in trace.loop_lines if line.visits >= MIN_ITERATIONS and line.place not in input_places]
    lines = [line for line in frequent if not _is_near(line, excluded)]
    share = sum(line.share for line in lines)
    if not lines or share < MIN_LOOP_SHARE:
        return None
    ms = (trace.mean(Category.PYTHON) + trace.mean(Category.DISPATCH)) * share
    iterations = max(line.visits for line in lines)
    says = f"a Python loop has {iterations:,.0f} iterations and takes {format_number(ms)} ms in each step"
    saved = {Category.DISPATCH: SAVED_PYTHON_SHARE * ms}
    return HandwrittenCode(CodeKind.EAGER_LOOP, says, saved, tuple(line.place for line in lines[:3]))


def _is_near(line: Line, places: set[Place]) -> bool:
    return any(p.file == line.place.file and abs(p.line - line.place.line) <= MAX_LINES_APART for p in places)


def _python_callback(trace: Trace) -> HandwrittenCode | None:
    """Functions of the input pipeline are excluded."""
    if not any(kind in PYTHON_OPS for graph in op_work.training_graphs(trace) for kind in graph.get("types", {})):
        return None
    input_lines = {(w.detail.get("python") or {}).get("line") for p in trace.pipelines for w in p.written if w.python}
    called = [p for p in trace.producers if p.place is None or p.place.line not in input_lines]
    ms = sum(p.ms_per_step for p in called)
    if not called or ms <= 0:
        return None
    where = [line.place for line in called[0].lines[:1]] + [p.place for p in called if p.place]
    category = next(
        (c for c in (Category.DEVICE, Category.DISPATCH, Category.UNATTRIBUTED) if trace.mean(c) >= ms), Category.DEVICE
    )
    says = f"the step calls back into Python ({called[0].qualname}), which takes {format_number(ms)} ms of each step"
    saved = {category: SAVED_PYTHON_SHARE * ms}
    return HandwrittenCode(CodeKind.PYTHON_CALLBACK, says, saved, tuple(dict.fromkeys(where))[:3])


def _graph_loop(trace: Trace) -> HandwrittenCode | None:
    """The loop that starts most ops. If a loop's number of iterations is not known, it is the batch."""
    sizes = trace.steps.size[trace.steps.steady]
    batch = float(median_value(sizes)) if len(sizes) else 0.0
    loops = [(graph, row) for graph in op_work.training_graphs(trace) for row in graph.get("loops") or ()]
    if trace.kernels is None or not loops:
        return None
    graph, (name, file, line, each, iteration_counts, *_) = max(loops, key=lambda one: (one[1][4] or batch) * one[1][3])
    ops = (iteration_counts or batch) * each
    if ops < MIN_SIMILAR_OPS:
        return None
    # The gradient of the loop has about as many ops as the loop. The rest of the graph is counted with its gradient,
    # and not all of it runs. Of the ops that ran, the loop's own are known.
    share = 2 * ops / (2 * ops + graph.get("ops", 0))
    share = max(share, min(ops / trace.kernels.count, 1.0)) if trace.kernels.count else share
    start_ms = share * step_bound.op_start_ms(trace)
    own_share = op_work.op_time_share(trace.kernels, lambda op: f"{name}/" in op.name)
    computing_ms = trace.mean(Category.DEVICE) * own_share
    says = (
        f"a loop in the graph starts {each:,} ops in each of {ops / each:,.0f} iterations, which are independent of "
        f"each other; starting them takes {format_number(start_ms)} ms of each step, computing "
        f"{format_number(computing_ms)} ms"
    )
    where = (Place(str(file), int(line)),) if file else ()
    return HandwrittenCode(
        CodeKind.GRAPH_LOOP, says, _saved_by_one_op(Category.DEVICE, LEFT_SHARE, computing_ms, start_ms), where, ops=ops
    )


def _saved_by_one_op(category: Category, left_share: float, ms: float, start_ms: float) -> dict[Category, float]:
    """What one op saves of ops that compute for ``ms`` and start in ``start_ms``."""
    return {category: (1 - left_share) * ms, Category.DISPATCH: STARTS_SAVED_SHARE * start_ms}


def _one_hot_product(trace: Trace) -> HandwrittenCode | None:
    if trace.kernels is None:
        return None
    rows = [row for graph in op_work.training_graphs(trace) for row in graph.get("one_hot") or ()]
    names = {op_work.WindowOp(str(name), "", 0.0, 0.0).scope for row in rows for name in row[3]}
    one_hot_names = {str(row[0]) for row in rows}
    product_names = {name for row in rows for name in row[3]}

    def is_part(op: op_work.WindowOp) -> bool:
        plain = op.name.removeprefix("StatefulPartitionedCall/")
        base = plain.removeprefix("gradient_tape/")
        # The gradients of the products, and the sums over the batch that belong to them, have the products' names.
        return (
            plain in product_names
            or base in one_hot_names
            or any(base == name or base.startswith(f"{name}/") for name in product_names)
        )

    share = op_work.op_time_share(trace.kernels, is_part) if names else 0.0
    if share <= 0:
        return None
    ms = trace.mean(Category.DEVICE) * share
    says = (
        f"one-hot rows are multiplied by a matrix, which takes {format_number(ms)} ms of each step "
        f"({share:.0%} of op time); a lookup gives the same result"
    )
    places = tuple(Place(str(row[1]), int(row[2])) for row in rows if row[1])[:1]
    saved = {Category.DEVICE: SAVED_PRODUCT_SHARE * ms}
    return HandwrittenCode(CodeKind.ONE_HOT_PRODUCT, says, saved, places, op_share=share)


def _unrolled_loop(trace: Trace) -> HandwrittenCode | None:
    graph: Mapping[str, Any] = max(
        op_work.training_graphs(trace), key=lambda g: sum((g.get("repeated") or {}).values()), default={}
    )
    similar = graph.get("repeated") or {}
    count = sum(similar.values())
    lines = [row for row in graph.get("lines") or () if len(row) == 4 and row[3] >= max(MIN_OWN_OP_SHARE * row[2], 1)]
    # A sum to which each iteration adds is a chain as well. One op can do it, because the terms are independent.
    adds = sum(n for key, n in similar.items() if ADD_OP.match(_op_name(key)))
    if count < MIN_SIMILAR_OPS or not lines or graph.get("chain", 0) - adds > MAX_CHAINED_SHARE * (count - adds):
        return None
    own = [row for row in lines if not changes_variables(trace, Place(str(row[0]), int(row[1])))]
    if sum(row[3] for row in own) < MIN_OWN_OP_SHARE * sum(row[3] for row in lines):
        return None
    share = sum(row[2] for row in lines) / sum(row[2] for row in graph["lines"])
    ms, start_ms = _similar_ops_ms(trace, similar, share), step_bound.op_start_ms(trace) * share
    compile_ms = step_bound.xla_compile_ms(trace, share)
    kinds = ", ".join(f"{n:,} {_op_name(key)}" for key, n in sorted(similar.items(), key=lambda i: -i[1])[:3])
    says = f"a loop makes {count:,} similar ops in the graph ({kinds}); they take {format_number(ms + start_ms)} ms of"
    says += f" each step{_compiling_words(compile_ms)}"
    category = Category.DEVICE if trace.kernels is not None else Category.UNATTRIBUTED
    return HandwrittenCode(
        CodeKind.UNROLLED_LOOP,
        says,
        _saved_by_one_op(category, _left_share(trace, graph, ms), ms, start_ms),
        tuple(Place(str(row[0]), int(row[1])) for row in lines[:3]),
        ops=float(count),
        compile_ms=compile_ms,
    )


def _compiling_words(ms: float) -> str:
    return f", and XLA takes about {format_number(ms / 1e3)} s to compile them" if ms else ""


def _op_name(key: str) -> str:
    return key.rpartition("/")[2]


def _left_share(trace: Trace, graph: Mapping[str, Any], ms: float) -> float:
    """Share of the ops' computing that stays. The one op has the same arithmetic to do, but nothing beside it."""
    products = any(re.match(p, _op_name(key)) for key in graph["repeated"] for p in framework_names.PRODUCT_PATTERNS)
    multiply_adds = float(graph.get("multiply_adds") or 0) if products and not trace.on_accelerator else 0.0
    arithmetic_ms = op_work.product_ms(trace, multiply_adds)
    if trace.kernels is not None:  # at most what all products take now
        share = op_work.op_time_share(trace.kernels, lambda o: o.matmul or o.conv)
        arithmetic_ms = min(arithmetic_ms, trace.mean(Category.DEVICE) * share)
    return max(LEFT_SHARE, min(arithmetic_ms / ms, 1.0)) if ms else LEFT_SHARE


def _similar_ops_ms(trace: Trace, similar: Mapping[str, int], share: float) -> float:
    """What similar ops and their gradients compute in each step."""
    if trace.kernels is None:
        return share * trace.mean(Category.UNATTRIBUTED)
    scopes = {key.rpartition("/")[0] for key in similar}
    unscoped = {key for key in similar if "/" not in key}  # other ops of the step are outside of all scopes as well
    unnumbered = step_bound.are_steps_xla_compiled(trace)  # XLA gives similar ops one name

    def is_part(op: op_work.WindowOp) -> bool:
        within = (
            op_work.is_in_scopes(op, scopes, unnumbered=unnumbered)
            or re.sub(framework_names.NAME_NUMBER, "", op.root) in unscoped
        )
        return (within or op_work.adds_up_gradients(op)) and not op.update

    return trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, is_part)
