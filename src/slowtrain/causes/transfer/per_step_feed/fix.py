"""Edits that make an array of a list first, because TensorFlow converts lists element by element."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from msgspec import Struct

from slowtrain.causes.transfer.per_step_feed import LIST_NODES, HandFeed, calls_at_line, is_conversion
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.script.navigation import call_arguments, call_index, class_members, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

FLOAT_DTYPE_NAMES = {"tensorflow.float32": "float32", "tensorflow.float64": "float64"}
NUMBER_DTYPES = {**FLOAT_DTYPE_NAMES, "tensorflow.int32": "int32", "tensorflow.int64": "int64"}


def find_cures(trace: Trace, finding: HandFeed) -> Iterable[Prescription]:
    if trace.on_jax:
        ahead = "jax.device_put the next batch before the step that is waited for, or keep the data on the device"
        yield Prescription("edit", Effect.EXACT, ahead)
        return
    once = input_edits.hoist_loop_work(trace, finding.where)
    arrays = () if once else recorded_edits.all_applicable(trace, finding.where, as_array_once)
    arrays = arrays or (() if once else recorded_edits.all_applicable(trace, finding.where, as_array_first))
    if arrays:
        says = "make an array of the list first: TensorFlow converts lists element by element"
        yield Prescription("edit", Effect.EXACT, says, edits=arrays)
    says = "feed from a tf.data.Dataset that ends in .prefetch(tf.data.AUTOTUNE), or convert once before the loop"
    yield Prescription("edit", Effect.EXACT, says, edits=once)


def as_array_first(source: Source, line: int) -> list[Edit]:
    """``tf.constant(rows, tf.float32)`` at ``line`` of ``np.asarray(rows, "float32")`` if ``rows`` is a list.

    If the text does not show whether it is a list, the new code checks it: other values stay as they are.
    """
    found: list[Edit] = []
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    for call in calls_at_line(source, line):
        given = node_lookup.argument_value(call, "value", 0)
        dtype = _requested_dtype(source, call)
        if not is_conversion(source, call) or given is None or dtype is None or _may_run_in_graph(source, call):
            continue
        array = f'{numpy}.asarray({edits.node_text(source, given)}, "{dtype}")'
        known = _is_list_of_data(source, given)
        if known is None and isinstance(given, ast.Name):
            array = f"{array} if isinstance({given.id}, (list, tuple)) else {given.id}"
        elif not known:
            continue
        found.append(edits.replace_node(source, given, array))
    return [*importing, *found] if found else []


def as_array_once(source: Source, line: int) -> list[Edit]:
    """``tf.constant([rows[i] for i in chosen], tf.float32)`` at ``line`` in a loop, of an array made before the loop.

    Also for ``rows[i].x`` and ``rows[i]["x"]``. ``rows`` has to be made before the loop, and nothing may change it.
    """
    every = [(c, taken) for c in calls_at_line(source, line) if (taken := _taken_rows(source, c)) is not None]
    if len(every) != 1:
        return []
    call, taken = every[0]
    dtype, given, loops = (
        _requested_dtype(source, call, NUMBER_DTYPES),
        node_lookup.argument_value(call, "value", 0),
        scope_names.enclosing_loops(source, call),
    )
    if (
        dtype is None
        or not loops
        or not isinstance(given, ast.ListComp)
        or not _is_never_is_changed(source, taken, loops[-1])
    ):
        return []
    rows = edits.node_text(source, taken.rows)
    last = rows.rpartition(".")[2]
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    name = moved_statements.free_name(source, f"{last}_{taken.parts[-1]}" if taken.parts else f"{last}_array")
    whole = f"[one{taken.tail} for one in {rows}]" if taken.tail else rows
    place = edits.node_text(source, taken.item)[len(rows) :]
    each = edits.node_text(source, taken.over)[len(edits.node_text(source, taken.over.elt)) + 1 :]
    return [
        *importing,
        edits.insert_before(source, loops[-1], f'{name} = {numpy}.asarray({whole}, "{dtype}")'),
        edits.replace_node(source, given, f"{numpy}.stack([{name}{place}{each})"),
    ]


class _TakenRows(Struct, frozen=True):
    """``item`` is ``rows[i]`` in the list ``over``; ``tail`` is its ``.x`` or ``["x"]``, ``parts`` the names in it."""

    rows: ast.Name | ast.Attribute
    over: ast.ListComp
    item: ast.Subscript
    tail: str
    parts: tuple[str, ...]


def _taken_rows(source: Source, call: ast.Call) -> _TakenRows | None:
    """The rows that ``tf.constant([rows[a:b] for a in starts])`` takes, if it takes nothing else."""
    given = node_lookup.argument_value(call, "value", 0)
    if not is_conversion(source, call) or not isinstance(given, ast.ListComp):
        return None
    item, parts, over = given.elt, [], given
    while isinstance(item, (ast.Attribute, ast.Subscript)):
        key = item.slice.value if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) else None
        if isinstance(item, ast.Subscript) and not isinstance(key, str):
            break
        parts.append(item.attr if isinstance(item, ast.Attribute) else str(key))
        item = item.value
    tail = edits.node_text(source, given.elt)[len(edits.node_text(source, item)) :]
    if isinstance(item, ast.Name) and (group := _grouping_list(source, given, item)) is not None:
        item, over = group.elt, group
    own = {n.id for g in over.generators for n in syntax_tree.walk(g.target) if isinstance(n, ast.Name)}
    if not isinstance(item, ast.Subscript) or isinstance(item.slice, ast.Tuple) or _may_run_in_graph(source, call):
        return None
    rows = item.value
    named = isinstance(rows, ast.Name) or scope_names.dotted_name(rows).startswith("self.")
    if not isinstance(rows, (ast.Name, ast.Attribute)) or not named or scope_names.dotted_name(rows) in own:
        return None
    if queries.kind_at(source, rows) in (queries.TENSOR, queries.CONSTANT):
        return None
    return _TakenRows(rows, over, item, tail, tuple(parts[::-1]))


def _grouping_list(source: Source, given: ast.ListComp, row: ast.Name) -> ast.ListComp | None:
    """``[rows[i] for i in chosen]``, which ``group`` is, of ``[row.x for row in group]``."""
    each = given.generators[0]
    if (
        len(given.generators) != 1
        or each.ifs
        or not isinstance(each.iter, ast.Name)
        or scope_names.dotted_name(each.target) != row.id
    ):
        return None
    made = scope_names.binding_statements(source, each.iter.id, scope_names.enclosing_scope(source, given))
    value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    in_same_loops = value is not None and scope_names.enclosing_loops(source, made[0]) == scope_names.enclosing_loops(
        source, given
    )
    if (
        not isinstance(value, ast.ListComp)
        or len(value.generators) != 1
        or value.generators[0].ifs
        or not in_same_loops
    ):
        return None
    # It is evaluated once for each list, so a random draw would give other rows.
    called = {node_lookup.called_name(n) for n in syntax_tree.walk(value.generators[0].iter) if isinstance(n, ast.Call)}
    return value if called <= {"range", "len"} else None


def _is_never_is_changed(source: Source, taken: _TakenRows, loop: ast.stmt) -> bool:
    """Whether the rows are made before ``loop``, and nothing changes them or their ``parts``."""
    rows = taken.rows
    if isinstance(rows, ast.Name):
        scope = call_arguments.binding_function(source, rows)
        made = (
            [getattr(n, "lineno", 0) for n in scope_names.binding_statements(source, rows.id, scope)]
            if scope is not None
            else []
        )
        made += [0] if scope is not None and rows.id in scope_names.parameter_names(scope) else []
        if scope is not scope_names.enclosing_scope(source, loop) or len(made) != 1 or made[0] >= loop.lineno:
            return False
        if not all(_is_only_read(source, n) for n in syntax_tree.walk(loop) if getattr(n, "id", "") == rows.id):
            return False
    names = {*taken.parts, *([rows.attr] if isinstance(rows, ast.Attribute) else [])}
    if class_members.is_stored_outside_init(source, names):
        return False
    return not any(_is_list_changed(source, name) for name in names)


def _is_only_read(source: Source, node: ast.AST) -> bool:
    """Whether ``rows`` stands in ``rows[i]`` or in ``len(rows)``."""
    holder = node_lookup.parents_of(source).get(node)
    length = isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "len"
    return length or (isinstance(holder, ast.Subscript) and holder.value is node and isinstance(holder.ctx, ast.Load))


def _is_list_changed(source: Source, name: str) -> bool:
    """Whether anything in the file stores into a list of that name, or changes its length."""
    if name in class_members.extended_names(source) or name in class_members.reduced_names(source):
        return True
    for node in call_index.nodes_of_kind(source, ast.Subscript):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if name in (scope_names.dotted_name(node.value).rpartition(".")[2], key):
                return True
    return False


def _requested_dtype(source: Source, call: ast.Call, types: Mapping[str, str] = FLOAT_DTYPE_NAMES) -> str | None:
    """The type that the call asks for, if NumPy and TensorFlow round to it in the same way."""
    given = node_lookup.argument_value(call, "dtype", 1)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value if given.value in types.values() else None
    return types.get(scope_names.resolved_name(source, given)) if given is not None else None


def _is_list_of_data(source: Source, given: ast.expr, depth: int = 4) -> bool | None:
    """Whether it is a list of data; None if the text shows neither."""
    if isinstance(given, LIST_NODES):
        inner = given.elts if isinstance(given, ast.List) else [given.elt]
        if any(queries.kind_at(source, e) == queries.TENSOR for e in inner):
            return False
        return True if all(queries.kind_at(source, e) in (queries.ARRAY, queries.NUMBER) for e in inner) else None
    if queries.kind_at(source, given) in (queries.TENSOR, queries.ARRAY, queries.NUMBER, queries.CONSTANT):
        return False
    if not isinstance(given, ast.Name) or not depth:
        return None
    scope = call_arguments.binding_function(source, given)
    found = scope_names.binding_statements(source, given.id, scope) if scope is not None else []
    values = [n.value for n in found if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    known = {_is_list_of_data(source, v, depth - 1) for v in values} if len(values) == len(found) else set()
    return known.pop() if len(known) == 1 else None


def _may_run_in_graph(source: Source, call: ast.Call, depth: int = 3) -> bool:
    """Whether it may run in a graph or under a tape, where a call of NumPy would cut the gradient."""
    if any(
        isinstance(n, ast.With) and node_lookup.is_gradient_tape(n) and call in syntax_tree.walk(n)
        for n in call_index.nodes_of_kind(source, ast.With)
    ):
        return True
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return False
    if (
        graph_obstacles.is_graph_function(source, function)
        or function.name in ("call", "train_step", "test_step")
        or not depth
    ):
        return True
    return any(
        _may_run_in_graph(source, one, depth - 1)
        for one in call_index.index_of(source).calls_of(function.name)
        if one is not call
    )
