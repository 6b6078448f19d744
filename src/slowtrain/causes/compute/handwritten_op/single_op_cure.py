"""What the kinds of findings share: the cure, and the bounds of what one op costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.model import Effect, Place, Prescription
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace

MIN_SIMILAR_OPS = 60  # similar ops from one line; starting fewer takes too little time to matter
# Share of the ops' computing that the one op still takes. The scripts store_sales and texture_filters of clinic/, on
# two machines: 0.15 to 0.33. With the sums of their gradients, ski_rentals, bud_break and compressor_station: 0.05 to
# 0.14.
LEFT_SHARE = 0.15
STARTS_SAVED_SHARE = 0.95  # of the time to start the ops
LOOP_SPREAD = (0.5, 1.3)


def single_op_cures(trace: Trace, where: Sequence[Place]) -> Iterable[Prescription]:
    """One op in place of the loop, with an edit if the loop is one that can be rewritten."""
    edits = recorded_edits.first_applicable(trace, where, table_lookups.use_vectorized_map)
    one_op = "replace the loop by the one op (conv2d, einsum, batched matmul, gather)"
    says = "run all iterations of the loop at once with tf.vectorized_map" if edits else one_op
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits)
