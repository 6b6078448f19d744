"""Steps of an epoch that a script gives in samples: where it does, and the same in batches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

SAMPLE_NAME = re.compile(r"(?:^|_)(?:rows|samples|examples|images|records)$", re.IGNORECASE)
MAX_DEPTH = 4  # properties and methods that are followed


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
    size = batch_size_text(source, data)
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


def count_steps_in_batches(source: Source, line: int, named: str = "steps_per_epoch") -> list[Edit]:
    """Change ``steps_per_epoch``, or the ``named`` argument, of ``fit`` at ``line`` from samples to batches."""
    call = node_lookup.single_call(source, line, "fit", "fit_generator")
    argument = node_lookup.argument_value(call, named) if call is not None else None
    data_argument = ("validation_data", None) if named == "validation_steps" else ("x", 0)
    data = node_lookup.argument_value(call, *data_argument) if call is not None else None
    plain = (ast.Call, ast.Name, ast.Constant, ast.Subscript, ast.Attribute)
    if argument is None or data is None or not isinstance(argument, plain):
        return []
    size = batch_size_text(source, data)
    return [edits.insert_text(source, edits.node_end(argument), f" // {size}")] if size else []


def batch_size_text(source: Source, data: ast.expr, depth: int = 4) -> str | None:
    """Return the text of the batch size of ``data``, from ``.batch(n)`` or an argument of a generator."""
    if isinstance(data, ast.Name) and depth:
        scope = call_arguments.binding_function(source, data)
        found = scope_names.binding_statements(source, data.id, scope) if scope is not None else []
        values = [n.value for n in found if isinstance(n, ast.Assign)]
        texts = {batch_size_text(source, v, depth - 1) for v in values} - {None}
        return texts.pop() if len(texts) == 1 and len(values) == len(found) else None
    if not isinstance(data, ast.Call):
        return None
    for one in node_lookup.chain_calls(data):
        if node_lookup.called_name(one) in ("batch", "padded_batch"):
            size = node_lookup.argument_value(one, "batch_size", 0)
            return edits.node_text(source, size) if isinstance(size, (ast.Constant, ast.Name)) else None
    function = node_lookup.function_named(source, node_lookup.called_name(data), data)
    return _batch_parameter(source, function, data) if function is not None else None


def _batch_parameter(source: Source, function: ast.FunctionDef, call: ast.Call) -> str | None:
    """Return the parameter that slices the data, ``x[k:k + b]``, or is passed to ``.batch(b)``."""
    steps = {
        n.upper.right.id
        for n in syntax_tree.walk(function)
        if isinstance(n, ast.Slice) and isinstance(n.upper, ast.BinOp) and isinstance(n.upper.right, ast.Name)
    }
    calls = [
        n
        for n in syntax_tree.walk(function)
        if isinstance(n, ast.Call) and node_lookup.called_name(n) in ("batch", "padded_batch")
    ]
    sizes = [node_lookup.argument_value(n, "batch_size", 0) for n in calls if isinstance(n.func, ast.Attribute)]
    steps |= {n.id for n in sizes if isinstance(n, ast.Name)}
    names = [
        p
        for p in scope_names.parameter_names(function)
        if p in steps and p not in scope_names.bound_names(function.body)
    ]
    if not names and len(sizes) == 1:
        return _common_batch_constant(source, call, sizes[0])
    if len(names) != 1:
        return None
    argument = call_arguments.argument_in(function, call, names[0])
    if argument is None:
        parameters, defaults = function.args.args, function.args.defaults
        late = parameters[len(parameters) - len(defaults) :]
        argument = dict(zip([one.arg for one in late], defaults, strict=True)).get(names[0])
    plain = isinstance(argument, ast.Constant) or (argument is not None and scope_names.dotted_name(argument) != "")
    return edits.node_text(source, argument) if argument is not None and plain else None


def _common_batch_constant(source: Source, call: ast.Call, size: ast.expr | None) -> str | None:
    """Return a batch size that is the same constant in the function and at its call."""
    if not isinstance(size, ast.Name) or call_arguments.binding_function(source, size) is not source.tree:
        return None
    around = node_lookup.enclosing_function(source, call)
    while around is not None:
        if size.id in scope_names.bound_names(around.body) or size.id in scope_names.parameter_names(around):
            return None
        around = node_lookup.enclosing_function(source, around)
    return None if scope_names.is_rebound(source, size.id, source.tree) else size.id


def remove_repeat(source: Source, line: int) -> list[Edit]:
    """Remove ``.repeat(n)`` from the chain at ``line``."""
    call = node_lookup.single_call(source, line, "repeat")
    if call is None or not isinstance(call.func, ast.Attribute) or not (call.args or call.keywords):
        return []
    if len(call.args) + len(call.keywords) != 1:
        return []
    return [Edit(source.file, edits.node_end(call.func.value), edits.node_end(call), "")]
