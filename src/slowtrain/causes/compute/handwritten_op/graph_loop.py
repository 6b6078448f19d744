"""A loop in the graph with independent iterations, as ``tf.map_fn`` makes it. It starts its ops in each iteration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.compute.handwritten_op.single_op_cure import (
    LEFT_SHARE,
    MIN_SIMILAR_OPS,
    STARTS_SAVED_SHARE,
    single_op_cures,
)
from slowtrain.causes.compute.handwritten_op.unrolled_loop import drop_loop_ops
from slowtrain.columns.arrays import median_value
from slowtrain.model import Category, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound
from slowtrain.whatif import Remedy


@dataclass(frozen=True)
class GraphLoop:
    """A loop that starts ``ops`` per step, ``ops_per_iteration`` in each iteration."""

    ops: float
    ops_per_iteration: int
    start_ms: float
    computing_ms: float
    where: tuple[Place, ...]

    @property
    def saved_by_category(self) -> dict[Category, float]:
        return {
            Category.DEVICE: (1 - LEFT_SHARE) * self.computing_ms,
            Category.DISPATCH: STARTS_SAVED_SHARE * self.start_ms,
        }

    @property
    def saved_ms(self) -> float:
        return sum(self.saved_by_category.values())

    def evidence(self) -> Evidence:
        saved = {str(category): ms for category, ms in self.saved_by_category.items()}
        return Evidence(
            f"a loop in the graph starts {self.ops_per_iteration:,} ops in each of "
            f"{self.ops / self.ops_per_iteration:,.0f} iterations, which are independent of each other; starting them "
            f"takes {format_number(self.start_ms)} ms of each step, computing {format_number(self.computing_ms)} ms",
            {**saved, "ops": self.ops},
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [drop_loop_ops(trace, self.saved_by_category)]

    def scope_in(self, trace: Trace) -> str:
        return "step"

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return single_op_cures(trace, self.where)


def find_graph_loop(trace: Trace) -> GraphLoop | None:
    """The loop that starts most ops. If a loop's number of iterations is not known, it is the batch."""
    sizes = trace.steps.size[trace.steps.steady]
    batch = float(median_value(sizes)) if len(sizes) else 0.0
    loops = [(graph, row) for graph in op_work.training_graphs(trace) for row in graph.get("loops") or ()]
    if trace.kernels is None or not loops:
        return None
    graph, row = max(loops, key=lambda one: (one[1][4] or batch) * one[1][3])
    ops = (row[4] or batch) * row[3]
    if ops < MIN_SIMILAR_OPS:
        return None
    # The gradient of the loop has about as many ops as the loop. The rest of the graph is counted with its gradient,
    # and not all of it runs. Of the ops that ran, the loop's own are known.
    share = 2 * ops / (2 * ops + graph.get("ops", 0))
    share = max(share, min(ops / trace.kernels.count, 1.0)) if trace.kernels.count else share
    name = str(row[0])
    return GraphLoop(
        ops,
        row[3],
        share * step_bound.op_start_ms(trace),
        trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, lambda o: f"{name}/" in o.name),
        (Place(str(row[1]), int(row[2])),) if row[1] else (),
    )
