"""Products with one-hot rows, forward and backward. A lookup needs none of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.model import Category, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.whatif import Drop, Remedy

SAVED_SHARE = 0.98  # of the products' time


@dataclass(frozen=True)
class OneHotProduct:
    """``ms`` per step in products with one-hot rows, which are ``op_share`` of all op time."""

    ms: float
    op_share: float
    where: tuple[Place, ...]

    @property
    def saved_ms(self) -> float:
        return SAVED_SHARE * self.ms

    def evidence(self) -> Evidence:
        return Evidence(
            f"one-hot rows are multiplied by a matrix, which takes {format_number(self.ms)} ms of each step "
            f"({self.op_share:.0%} of op time); a lookup gives the same result",
            {str(Category.DEVICE): self.saved_ms, "op_share": self.op_share},
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        gone = op_work.ms_of_streaming_ops(trace, self.op_share, self.saved_ms)
        return [Drop(gone, spread=(0.75, 1.1))]

    def scope_in(self, trace: Trace) -> str:
        return "step"

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        says = "look up rows with tf.gather or layers.Embedding instead of a matrix product"
        edits = recorded_edits.first_applicable(trace, self.where, table_lookups.use_gather)
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits)


def find_one_hot_product(trace: Trace) -> OneHotProduct | None:
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
    place = next((Place(str(row[1]), int(row[2])) for row in rows if row[1]), None)
    return OneHotProduct(trace.mean(Category.DEVICE) * share, share, (place,) if place else ())
