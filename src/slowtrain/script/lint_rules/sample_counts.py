"""How many samples and steps the calls of ``fit`` in a script take."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import Source

DEFAULT_BATCH_SIZE = 32  # the default of Keras
SAMPLE_NAME = re.compile(r"(?:^|_)(?:rows|samples|examples|images|records)$", re.IGNORECASE)
MAX_DEPTH = 4  # properties and methods that are followed


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


def steps_in_samples(source: Source) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """Find ``steps_per_epoch`` and ``validation_steps`` that are a number of samples."""
    for call in call_index.index_of(source).calls_of("fit", "fit_generator"):
        data = node_lookup.argument_value(call, "x", 0) or node_lookup.argument_value(call, "generator", 0)
        yield from _sample_counts(source, call, "steps_per_epoch", data)
        dataset = node_lookup.argument_value(call, "validation_data")
        known = queries.dataset_at(source, dataset)
        if known is not None and queries.is_endless(known):
            yield from _sample_counts(source, call, "validation_steps", dataset)


def _sample_counts(
    source: Source, call: ast.Call, name: str, data: ast.expr | None
) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    argument = node_lookup.argument_value(call, name)
    if argument is None or data is None or not _is_sample_count(source, argument):
        return
    known = queries.dataset_at(source, data)
    size = keras_calls.batch_size_text(source, data)
    if size is None and known is not None and known.data.get("batch") is not None:
        size = str(known.data["batch"])
    if size is not None and size != "1" and not _is_unbatched(data):
        yield call, argument, f"{name}={ast.unparse(argument)} counts samples; a step takes {size} of them"


def _is_sample_count(source: Source, node: ast.expr, depth: int = MAX_DEPTH) -> bool:
    """Whether it is ``len(x)`` or ``x.shape[0]`` of an array, through names, properties and ``__len__``.

    Also any value under a name that says so: ``stats["train_rows"]``.
    """
    if not depth:
        return False
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node)
        if value is None or isinstance(value, ast.Constant):
            return SAMPLE_NAME.search(node.id) is not None
        return _is_sample_count(source, value, depth - 1)
    if isinstance(node, ast.Attribute):
        returned = _property_value(source, node)
        return returned is not None and _is_sample_count(source, returned, depth - 1)
    if isinstance(node, ast.Call) and node_lookup.called_name(node) == "len" and len(node.args) == 1:
        of = node.args[0]
        kind = queries.object_class_at(source, of)
        if kind is not None:
            own = class_members.own_method(kind, "__len__")
            given_back = scope_names.returned_values(own) if own is not None else []
            return len(given_back) == 1 and _is_sample_count(source, given_back[0], depth - 1)
        if isinstance(of, ast.Attribute) and _is_loaded_array(source, of):
            return True
        return queries.shape_at(source, of) is not None or queries.kind_at(source, of) == queries.ARRAY
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return key == 0
        return isinstance(key, str) and SAMPLE_NAME.search(key) is not None
    return False


def _is_unbatched(data: ast.expr | None) -> bool:
    """Whether the data set is unbatched."""
    return isinstance(data, ast.Call) and any(
        node_lookup.called_name(c) == "unbatch" for c in node_lookup.chain_calls(data)
    )


def _property_value(source: Source, node: ast.Attribute) -> ast.expr | None:
    """Return the result of a property."""
    kind = queries.object_class_at(source, node.value)
    method = class_members.own_method(kind, node.attr) if kind is not None else None
    marks = [scope_names.dotted_name(d).rpartition(".")[2] for d in method.decorator_list] if method is not None else []
    values = (
        scope_names.returned_values(method)
        if method is not None and marks in (["property"], ["cached_property"])
        else []
    )
    return values[0] if len(values) == 1 else None


def _is_loaded_array(source: Source, node: ast.Attribute) -> bool:
    """Whether an attribute is assigned once, with an array that NumPy creates or loads."""
    stored = class_members.attribute_stores(source, node.attr)
    holder = node_lookup.parents_of(source).get(stored[0]) if len(stored) == 1 else None
    value = holder.value if isinstance(holder, ast.Assign) and holder.targets == stored else None
    return value is not None and queries.kind_at(source, value) == queries.ARRAY


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
