"""How many samples and steps the calls of ``fit`` in a script take."""

from __future__ import annotations

import ast

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import name_bindings
from slowtrain.script.text.source_file import Source

DEFAULT_BATCH_SIZE = 32  # the default of Keras


def fit_epoch_steps(event: Event) -> int | None:
    """Return the steps of an epoch of ``fit``."""
    call = event.given
    if "steps_per_epoch" in call.keywords:
        known = call.keywords["steps_per_epoch"].known
        return known if isinstance(known, int) else None
    data = call.get("x", 0)
    if data.kind == "dataset":
        return operators.known_length(data)
    size, rows = call.get("batch_size", 2), sample_count(data)
    batch = DEFAULT_BATCH_SIZE if size.kind in ("unknown", "none") and "batch_size" not in call.keywords else size.known
    return -(-rows // batch) if rows and isinstance(batch, int) and batch else None


def sample_count(data: Value) -> int | None:
    """Return the rows of an array, or of the first of several arrays."""
    if data.kind in ("tuple", "list", "dict") and data.items and data.shape is None:
        return sample_count(next(iter(data.items.values())))
    return data.shape[0] if data.kind in ("array", "tensor") and data.shape else None


def given_rows(source: Source, data: ast.expr | None) -> int | None:
    """Return the samples of an argument; of several inputs, ``[a, b]``, those of the first."""
    written = data
    if isinstance(data, ast.Name):
        bound = name_bindings.bindings_of(name_bindings.binding_scope(source, data, data.id), data.id)
        stores = [one for one in bound if isinstance(one, ast.expr)]
        written = name_bindings.assigned_value(source, stores[0]) if len(stores) == 1 else data
    match written:
        case ast.List(elts=[first, _, *_] as elts) | ast.Tuple(elts=[first, _, *_] as elts):
            inputs = all(isinstance(one, (ast.Name, ast.Subscript, ast.Call, ast.Attribute)) for one in elts)
            return queries.row_count_at(source, first if inputs else data)
    return queries.row_count_at(source, data)
