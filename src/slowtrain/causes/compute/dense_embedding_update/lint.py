"""Where the cause compute/dense-embedding-update shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.dense_embedding_update import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.compute import handwritten_ops as spotted
from slowtrain.script.lint_rules.steps import interpreted_ops
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Large tables with Adam; work on every row of a table before the lookup."""
    whole, updated = tuple(spotted.whole_table_ops(source)), tuple(spotted.dense_table_updates(source))
    for one in whole:
        cure = Prescription("edit", Effect.EQUIVALENT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    penalised = tuple(spotted.penalised_embeddings(source))
    for one in penalised:
        yield Spot(one.start, one.end, one.says, Prescription("edit", Effect.CHANGES_TRAINING, one.cure))
    for one in spotted.densified_gradients(source):
        yield Spot(one.start, one.end, one.says, Prescription("edit", Effect.EQUIVALENT, one.cure))
    for one in updated:
        cure = Prescription("edit", Effect.CHANGES_TRAINING, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    for call, rows in () if whole else interpreted_ops.table_wide_ops(source):
        says = f"{node_lookup.called_name(call)} of all {rows:,} rows, though a step looks up only those of a batch"
        yield Spot(
            edits.node_start(call), edits.node_end(call), says, Prescription("edit", Effect.EQUIVALENT, fix.LOOKUP_CURE)
        )
    for norm, (rows, width) in () if penalised else interpreted_ops.penalised_embeddings(source):
        says = f"this op and its gradient read all {rows:,} x {width} numbers of a table in each step"
        fewer = "take the norm of the rows that were looked up"
        yield Spot(
            edits.node_start(norm), edits.node_end(norm), says, Prescription("edit", Effect.CHANGES_TRAINING, fewer)
        )
    for call, (rows, width) in () if updated else interpreted_ops.densely_updated_tables(source):
        says = f"Adam updates all {rows:,} x {width} numbers of this table in each step"
        yield Spot(
            edits.node_start(call),
            edits.node_end(call),
            says,
            Prescription("edit", Effect.CHANGES_TRAINING, fix.LAZY_OPTIMIZER_CURE),
        )
