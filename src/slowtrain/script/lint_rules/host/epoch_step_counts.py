"""Lint rules about steps per epoch counted in samples, and data sets that repeat twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
    setting_origins,
)
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

EPOCH_NAME = re.compile(r"epoch", re.IGNORECASE)
SAMPLE_NAME = re.compile(r"(?:^|_)(?:rows|samples|examples|images|records)$", re.IGNORECASE)
DATASET_OPERATIONS = frozenset({"batch", "padded_batch", "map", "prefetch", "shuffle"})  # arrays have a repeat() too
RANGE_FUNCTIONS = frozenset({"range", "trange"})
MAX_DEPTH = 4  # properties and methods that are followed


def steps_in_samples(source: Source) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """Find ``steps_per_epoch`` and ``validation_steps`` that are a number of samples."""
    for call in call_index.index_of(source).called("fit", "fit_generator"):
        data = node_lookup.argument_value(call, "x", 0) or node_lookup.argument_value(call, "generator", 0)
        yield from _sample_counts(source, call, "steps_per_epoch", data)
        held = node_lookup.argument_value(call, "validation_data")
        known = queries.dataset_at(source, held)
        if known is not None and queries.is_endless(known):
            yield from _sample_counts(source, call, "validation_steps", held)


def _sample_counts(
    source: Source, call: ast.Call, name: str, data: ast.expr | None
) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    given = node_lookup.argument_value(call, name)
    if given is None or data is None or not _is_sample_count(source, given):
        return
    known = queries.dataset_at(source, data)
    size = keras_calls.batch_size_text(source, data)
    if size is None and known is not None and known.data.get("batch") is not None:
        size = str(known.data["batch"])
    if size is not None and size != "1" and not _is_unbatched(data):
        yield call, given, f"{name}={ast.unparse(given)} counts samples; a step takes {size} of them"


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
        given = _property_value(source, node)
        return given is not None and _is_sample_count(source, given, depth - 1)
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


def is_quotient(source: Source, given: ast.expr | None) -> bool:
    """Whether a number is a quotient, here or where its name is assigned."""
    written = setting_origins.written_value(source, given) if given is not None else None
    inside = [n for one in (given, written) if one is not None for n in syntax_tree.walk(one)]
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, (ast.FloorDiv, ast.Div)) for n in inside)


def smaller_batch_size(steps: int, rows: int, batch: int) -> int:
    """Return the smaller batch size with which so many steps cover the data; 0 if there is none."""
    other = rows // steps if 0 < steps < rows else 0
    return other if 1 < other <= batch // 2 and rows // other == steps else 0


def _is_unbatched(data: ast.expr | None) -> bool:
    """Whether the data set is unbatched."""
    return isinstance(data, ast.Call) and any(
        node_lookup.called_name(c) == "unbatch" for c in node_lookup.chain_calls(data)
    )


def doubly_repeated_datasets(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find ``repeat(n)`` of a data set that ``fit``, or a loop, iterates over for n epochs again."""
    repeats = [c for c in call_index.index_of(source).called("repeat") if isinstance(c.func, ast.Attribute)]
    passes = list(_repeated_passes(source)) if repeats else []
    for call in repeats:
        count = node_lookup.argument_value(call, "count", 0)
        for data, place, epochs in passes if count is not None else ():
            if (
                count is not None
                and _is_same_count(source, count, epochs)
                and _is_repeated_dataset(source, call, data, place)
            ):
                what = "of fit()" if isinstance(place, ast.Call) else "of the loop around"
                yield call, f"the data set repeats itself {ast.unparse(count)} times in each epoch {what}"
                break


def _repeated_passes(source: Source) -> Iterator[tuple[ast.expr, ast.Call | ast.For, ast.expr]]:
    """Yield the data that is iterated completely several times, the place, and the expression of the count."""
    for fit in call_index.index_of(source).called("fit"):
        epochs, data = node_lookup.argument_value(fit, "epochs", 3), node_lookup.argument_value(fit, "x", 0)
        if epochs is None or queries.int_at(source, epochs) == 1:
            continue
        if data is not None and node_lookup.argument_value(fit, "steps_per_epoch") is None:
            yield data, fit, epochs
        held = node_lookup.argument_value(fit, "validation_data")
        if held is not None and node_lookup.argument_value(fit, "validation_steps") is None:
            yield held, fit, epochs
    for loop in call_index.nodes_of_kind(source, ast.For):
        outer = scope_names.enclosing_loops(source, loop)
        over = outer[0].iter if outer and isinstance(outer[0], ast.For) else None
        if (
            not isinstance(loop, ast.For)
            or not isinstance(over, ast.Call)
            or node_lookup.called_name(over) not in RANGE_FUNCTIONS
        ):
            continue
        if over.args and not any(
            isinstance(n, (ast.Break, ast.Return)) for s in loop.body for n in scope_names.nodes_in_scope(s)
        ):
            yield loop.iter, loop, over.args[-1 if len(over.args) < 3 else 1]


def _is_same_count(source: Source, count: ast.expr, epochs: ast.expr) -> bool:
    """Whether both expressions are the same number of epochs."""
    if _epoch_names(count) & _epoch_names(epochs):
        return True
    if isinstance(count, ast.Constant) or isinstance(epochs, ast.Constant):
        first, second = queries.int_at(source, count), queries.int_at(source, epochs)
        return first is not None and first > 1 and first == second
    written = setting_origins.value_origin(source, count), setting_origins.value_origin(source, epochs)
    if written[0] is not None and written[1] is not None and written[0].node is written[1].node:
        return queries.int_at(source, count) != 1 and not isinstance(written[0].node, ast.Call)
    named = isinstance(count, ast.Name) and isinstance(epochs, ast.Name) and count.id == epochs.id
    scope = name_bindings.binding_scope
    if named and scope(source, count, count.id) is scope(source, epochs, count.id):  # type: ignore[attr-defined]
        return queries.int_at(source, count) != 1
    known = queries.int_at(source, count)
    return known is not None and known > 1 and known == queries.int_at(source, epochs)


def _epoch_names(node: ast.expr | None) -> set[str]:
    """Return names in an expression that count epochs."""
    parts = list(syntax_tree.walk(node)) if node is not None else []
    words = {n.id if isinstance(n, ast.Name) else n.attr for n in parts if isinstance(n, (ast.Name, ast.Attribute))}
    keys = [n.slice.value for n in parts if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
    return {w for w in words | {k for k in keys if isinstance(k, str)} if EPOCH_NAME.search(w)}


def _is_repeated_dataset(source: Source, repeat: ast.Call, data: ast.expr | None, place: ast.AST) -> bool:
    """Whether the repeated data set is the one iterated at ``place``."""
    for _ in range(MAX_DEPTH):
        if isinstance(data, ast.Name):
            data = dataset_chains.last_assignment(source, data, place) or dataset_chains.parameter_argument(
                source, data
            )
            place = data if data is not None else place
        elif isinstance(data, ast.Attribute):
            data = setting_origins.written_value(source, data)
        elif (
            isinstance(data, ast.Call)
            and node_lookup.called_name(data) in whole_pipelines.TRANSPARENT_CALLS
            and data.args
        ):
            data = data.args[0]
    if not isinstance(data, ast.Call):
        return False
    flow = dataset_chains.upstream_chain(source, data)
    if not flow.known and not DATASET_OPERATIONS & set(flow.names):
        return False
    made = _repeating_function(source, repeat, data)
    return not _is_left_out(source, repeat, *made) if made is not None else repeat in flow.calls


def _repeating_function(source: Source, repeat: ast.Call, data: ast.Call) -> tuple[ast.FunctionDef, ast.Call] | None:
    """Return the function that contains ``repeat``, and its call at the root of the chain ``data``."""
    root = list(node_lookup.chain_calls(data))[-1]
    for call in (data, root):
        made = node_lookup.function_named(source, node_lookup.called_name(call), call)
        if made is not None and node_lookup.enclosing_function(source, repeat) is made:
            return made, call
    return None


def _is_left_out(source: Source, repeat: ast.Call, made: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether it is under ``if training:`` and this call does not pass True."""
    test = node_lookup.enclosing_node(source, repeat, ast.If, ast.IfExp)
    if test is None:
        return False
    asked = test.test if isinstance(test, (ast.If, ast.IfExp)) else None
    given = call_arguments.argument_in(made, call, asked.id) if isinstance(asked, ast.Name) else None
    given = given or (class_members.parameter_defaults(made).get(asked.id) if isinstance(asked, ast.Name) else None)
    return not (isinstance(given, ast.Constant) and given.value is True)


def _property_value(source: Source, node: ast.Attribute) -> ast.expr | None:
    """Return the result of a property."""
    kind = queries.object_class_at(source, node.value)
    made = class_members.own_method(kind, node.attr) if kind is not None else None
    marks = [scope_names.dotted_name(d).rpartition(".")[2] for d in made.decorator_list] if made is not None else []
    given = (
        scope_names.returned_values(made) if made is not None and marks in (["property"], ["cached_property"]) else []
    )
    return given[0] if len(given) == 1 else None


def _is_loaded_array(source: Source, node: ast.Attribute) -> bool:
    """Whether an attribute is assigned once, with an array that NumPy creates or loads."""
    stored = class_members.attribute_stores(source, node.attr)
    holder = node_lookup.parents_of(source).get(stored[0]) if len(stored) == 1 else None
    value = holder.value if isinstance(holder, ast.Assign) and holder.targets == stored else None
    return value is not None and queries.kind_at(source, value) == queries.ARRAY
