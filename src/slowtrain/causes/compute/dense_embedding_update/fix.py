"""Edits that let an embedding update only the rows that a batch uses."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.dense_embedding_update import WholeTableOps, whole_tables
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.models import keras_models, table_lookups
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace

MIN_OPTIMIZER_SHARE = 0.5  # of the time over the table: with less, the work on the whole table costs more
LAZY_OPTIMIZER_CURE = "use an optimizer that updates only the rows used: a lazy Adam, SGD without momentum"


def find_cures(trace: Trace, finding: WholeTableOps) -> Iterable[Prescription]:
    lookup_edits = _lookup_edits(trace)
    lookup = Prescription("edit", Effect.EQUIVALENT, whole_tables.LOOKUP_CURE, edits=lookup_edits)
    edits = edit_project(trace, keras_models.use_lazy_adam)
    lazy = Prescription("edit", Effect.CHANGES_TRAINING, LAZY_OPTIMIZER_CURE, edits=edits)
    # If the optimizer's own ops take little, the work on the whole table before the lookup takes the rest.
    if lookup_edits or finding.optimizer_share < MIN_OPTIMIZER_SHARE:
        return (lookup, lazy)
    return (lazy, lookup)


def find_lines(trace: Trace, _finding: WholeTableOps) -> Iterable[Place]:
    """Lines that work on all rows of a table, or make its gradient dense."""
    first = source_places.edit_places(_lookup_edits(trace))[:1]  # the op; a lookup of its result follows
    kinds = (whole_tables.whole_table_ops, whole_tables.penalised_embeddings, whole_tables.densified_gradients)
    seen = source_places.project_places(trace, lambda source: [one.start[0] for kind in kinds for one in kind(source)])
    return source_places.merge_places(first, seen)


def _lookup_edits(trace: Trace) -> tuple[Edit, ...]:
    """Rows are looked up before the whole table is worked on."""
    return edit_project(trace, table_lookups.gather_before_normalising)
