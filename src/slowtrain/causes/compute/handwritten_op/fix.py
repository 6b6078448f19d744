"""One op in place of code that computes it step by step."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.handwritten_op import CodeKind, HandwrittenCode
from slowtrain.model import Effect, Place, Prescription
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: HandwrittenCode) -> Iterable[Prescription]:
    if finding.kind is CodeKind.ONE_HOT_PRODUCT:
        says = "look up rows with tf.gather or layers.Embedding instead of a matrix product"
        edits = recorded_edits.first_applicable(trace, finding.where, table_lookups.use_gather)
    else:
        edits = recorded_edits.first_applicable(trace, finding.where, table_lookups.use_vectorized_map)
        whole = "run all iterations of the loop at once with tf.vectorized_map"
        one_op = "replace the loop by the one op (conv2d, einsum, batched matmul, gather)"
        says = whole if edits else one_op
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits)


def find_lines(trace: Trace, finding: HandwrittenCode) -> Iterable[Place]:
    """The heads of the unrolled loops."""
    for place in finding.where:
        yield from source_places.file_places(trace, place, source_locations.loop_line)
