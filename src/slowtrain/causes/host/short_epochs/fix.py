"""Makes ``fit`` use one iterator over its data for all epochs."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.short_epochs import EpochStarts
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

KEEP_ITERATOR = (
    "let one iterator last for all epochs: fit(ds.repeat(), steps_per_epoch=len(ds)); in a loop, ds.repeat(n)"
)
# Arguments that Keras accepts for arrays only, or counts in batches that it makes itself.
ARRAY_ARGUMENTS = ("validation_split", "sample_weight", "shuffle")
DEFAULT_BATCH = "32"


def find_cures(trace: Trace, finding: EpochStarts) -> Iterable[Prescription]:
    edits = recorded_edits.first_applicable(trace, finding.places, repeat_dataset)
    yield Prescription("edit", Effect.EQUIVALENT, KEEP_ITERATOR, edits=edits)


def repeat_dataset(source: Source, line: int) -> list[Edit]:
    """Makes ``fit(ds)`` at ``line`` ``fit(ds.repeat(), steps_per_epoch=len(ds))``. Arrays become a data set first."""
    call = node_lookup.single_call(source, line, "fit")
    if call is None or any(k.arg is None for k in call.keywords) or node_lookup.argument_value(call, "steps_per_epoch"):
        return []
    x, y = node_lookup.argument_value(call, "x", 0), node_lookup.argument_value(call, "y", 1)
    if y is not None:
        return _dataset_from_arrays(source, call, x, y)
    if x is None or not isinstance(x, ast.Name) or not queries.is_dataset(source, x):
        return []
    return [
        *edits.append_to_chain(source, x, ".repeat()"),
        edits.set_keyword(source, call, "steps_per_epoch", f"len({x.id})"),
    ]


def _dataset_from_arrays(source: Source, call: ast.Call, x: ast.expr | None, y: ast.expr) -> list[Edit]:
    """The edits for two arrays that are plain names. Neither may be a list of several inputs."""
    if not isinstance(x, ast.Name) or not isinstance(y, ast.Name) or len(call.args) not in (0, 2):
        return []
    if queries.kind_at(source, x) != queries.ARRAY or queries.kind_at(source, y) != queries.ARRAY:
        return []
    if any(node_lookup.argument_value(call, name) is not None for name in ARRAY_ARGUMENTS):
        return []
    batch = node_lookup.argument_value(call, "batch_size")
    if batch is not None and not isinstance(batch, (ast.Constant, ast.Name, ast.Attribute)):
        return []
    size = edits.node_text(source, batch) if batch is not None else DEFAULT_BATCH
    tf, imports = edits.ensure_import(source, "tensorflow", "tf")
    made = f"{tf}.data.Dataset.from_tensor_slices(({x.id}, {y.id})).shuffle(len({x.id})).batch({size}).repeat()"
    steps = edits.set_keyword(source, call, "steps_per_epoch", f"-(-len({x.id}) // {size})")
    given = {k.value: k for k in call.keywords}
    if y in given or x in given:
        if not (x in given and y in given):
            return []
        first = [edits.replace_node(source, x, made), *edits.remove_keyword(source, call, "y")]
    else:
        first = [Edit(source.file, edits.node_start(x), edits.node_end(y), made)]
    dropped = edits.remove_keyword(source, call, "batch_size") if batch is not None else []
    return [*imports, *first, *dropped, steps]
