"""Edits of ops: table lookups in place of one-hot products, work on looked-up rows, ``tf.vectorized_map``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Lookup functions of the modules that provide ``one_hot``.
LOOKUP_FUNCTIONS = {
    "tensorflow.one_hot": "{0}.gather({1}, {2})",
    "tensorflow.compat.v1.one_hot": "{0}.gather({1}, {2})",
    "keras.ops.one_hot": "{0}.take({1}, {2}, axis=0)",
    "keras.backend.one_hot": "{0}.gather({1}, {2})",
}
GATHER_FUNCTIONS = ("tensorflow.gather", "tensorflow.nn.embedding_lookup")
ELEMENTWISE_FUNCTIONS = frozenset(f"tensorflow.{name}" for name in (
    "tanh", "sigmoid", "nn.relu", "nn.sigmoid", "nn.tanh", "nn.elu", "nn.softplus", "math.tanh", "math.sigmoid", "exp",
    "math.exp", "abs", "math.abs", "identity", "stop_gradient", "square", "math.square", "cast"))  # fmt: skip
ROW_FUNCTIONS = frozenset(f"tensorflow.{name}" for name in (
    "nn.l2_normalize", "math.l2_normalize", "linalg.l2_normalize", "nn.softmax", "nn.log_softmax"))  # fmt: skip


def use_gather(source: Source, line: int) -> tuple[Edit, ...]:
    """Replace ``tf.matmul(tf.one_hot(ids, n), table)`` by ``tf.gather(table, ids)``.

    The one-hot rows are at ``line``.
    """
    hot = find.single_call(source, line, "one_hot")
    how = LOOKUP_FUNCTIONS.get(name_bindings.qualified_name(source, hot.func)) if hot is not None else None
    if hot is None or how is None or not isinstance(hot.func, ast.Attribute) or not _is_plain_one_hot(hot):
        return ()
    ids = find.argument_value(hot, "indices", 0) or find.argument_value(hot, "x", 0)
    if ids is None:
        return ()
    name = _assigned_name(source, hot)
    done: list[Edit] = []
    for one in name_bindings.reads_of(source, name.id) if name is not None else [hot]:
        product = _table_product(source, one)
        if product is None:
            continue
        whole, table = product
        text = how.format(
            edits.node_text(source, hot.func.value), edits.node_text(source, table), edits.node_text(source, ids)
        )
        done.append(edits.replace_node(source, whole, text))
    statement = find.enclosing_statement(source, hot)
    if (
        done
        and name is not None
        and len(done) == len(name_bindings.reads_of(source, name.id))
        and statement is not None
    ):
        if not _ids_unchanged(source, ids, statement, done):
            return ()
        done.append(edits.remove_statement(source, statement))
    return tuple(done)


def gather_before_normalising(source: Source) -> tuple[Edit, ...]:
    """Replace ``tf.gather(f(table), i)`` by ``f(tf.gather(table, i))``, for ``f`` that works row by row."""
    done: list[Edit] = []
    for call in call_index.nodes_of_class(source, ast.Call):
        table = row_wise_table(source, call)
        if table is None or not is_table(source, table):
            continue
        name = _assigned_name(source, call)
        used = [
            _gather_call(source, n) for n in (name_bindings.reads_of(source, name.id) if name is not None else [call])
        ]
        gathers = [g for g in used if g is not None]
        if not gathers or len(gathers) != len(used):
            continue
        for gather in gathers:
            ids = find.argument_value(gather, "indices", 1) or find.argument_value(gather, "ids", 1)
            if ids is None:
                return ()
            looked = (
                f"{edits.node_text(source, gather.func)}({edits.node_text(source, table)}, "
                f"{edits.node_text(source, ids)})"
            )
            done.append(edits.replace_node(source, gather, _call_over_rows(source, call, looked)))
        statement = find.enclosing_statement(source, call)
        if name is not None and statement is not None:
            done.append(edits.remove_statement(source, statement))
    return tuple(done)


def is_table(source: Source, node: ast.expr) -> bool:
    """Whether ``node`` is a variable with two dimensions."""
    origins = [v for v in _origin_expressions(source, node) if not (isinstance(v, ast.Constant) and v.value is None)]
    return len(origins) == 1 and isinstance(origins[0], ast.Call) and _dimension_count(origins[0]) == 2


def _origin_expressions(source: Source, node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node)
        if value is not None:
            yield value
    elif isinstance(node, ast.Attribute):
        above = find.parents_of(source)
        for one in syntax_tree.walk(source.tree):
            if isinstance(one, ast.Attribute) and one.attr == node.attr and isinstance(one.ctx, ast.Store):
                holder = above.get(one)
                if isinstance(holder, (ast.Assign, ast.AnnAssign)) and holder.value is not None:
                    yield holder.value


def _dimension_count(call: ast.Call) -> int | None:
    """Return the number of dimensions of the variable that a call makes."""
    name = find.called_name(call)
    if name in ("add_weight", "add_variable", "get_variable"):
        shape = find.argument_value(call, "shape", 1 if name == "get_variable" else None)
        return len(shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else None
    if name == "Variable":
        value = find.argument_value(call, "initial_value", 0)
        inside = [n for n in syntax_tree.walk(value) if isinstance(n, ast.Call)] if value is not None else []
        shapes = [s for c in inside for s in (find.argument_value(c, "shape", 0), find.argument_value(c, "size"))]
        lengths = {len(s.elts) for s in shapes if isinstance(s, (ast.Tuple, ast.List))}
        return lengths.pop() if len(lengths) == 1 else None
    return None


def _is_plain_one_hot(hot: ast.Call) -> bool:
    """Whether each row has a single 1, in the last dimension."""
    if len(hot.args) > 2 or any(k.arg not in ("indices", "depth", "dtype", "axis", "x", "num_classes", "name") for k in
                                hot.keywords):  # fmt: skip
        return False
    axis = find.argument_value(hot, "axis")
    return axis is None or ast.unparse(axis) == "-1"


def _assigned_name(source: Source, node: ast.expr) -> ast.Name | None:
    """Return the name that is only assigned ``node``."""
    holder = find.parents_of(source).get(node)
    if not isinstance(holder, ast.Assign) or holder.value is not node or len(holder.targets) != 1:
        return None
    target = holder.targets[0]
    read = name_bindings.reads_of(source, target.id) if isinstance(target, ast.Name) else []
    return (
        target
        if isinstance(target, ast.Name) and read and name_bindings.single_assignment(source, read[0]) is node
        else None
    )


def _table_product(source: Source, rows: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the product of ``rows`` with a table, and the table."""
    holder = find.parents_of(source).get(rows)
    if not isinstance(holder, ast.Call) or find.called_name(holder) not in ("matmul", "dot") or holder.keywords:
        return None
    if not name_bindings.qualified_name(source, holder.func).startswith(("tensorflow.", "keras.")):
        return None
    if len(holder.args) != 2 or holder.args[0] is not rows or not is_table(source, holder.args[1]):
        return None
    return holder, holder.args[1]


def _ids_unchanged(source: Source, ids: ast.expr, assignment: ast.stmt, done: list[Edit]) -> bool:
    """Whether the ids do not change between the one-hot rows and the product."""
    names = {n.id for n in syntax_tree.walk(ids) if isinstance(n, ast.Name)}
    last = max(e.start for e in done)
    return not any(
        isinstance(n, ast.Name)
        and n.id in names
        and isinstance(n.ctx, ast.Store)
        and edits.node_end(assignment) < edits.node_start(n) < last
        for n in syntax_tree.walk(source.tree)
    )


def row_wise_table(source: Source, call: ast.Call) -> ast.expr | None:
    """Return the table that ``call`` transforms row by row."""
    name = name_bindings.qualified_name(source, call.func)
    if not call.args or len(call.args) > 2:
        return None
    if name in ELEMENTWISE_FUNCTIONS:
        return call.args[0]
    if name in ROW_FUNCTIONS:
        axis = find.argument_value(call, "axis", 1)
        softmax = "softmax" in name
        last = (axis is None and softmax) or (axis is not None and ast.unparse(axis) in ("1", "-1", "[1]", "[-1]"))
        return call.args[0] if last else None
    return None


def _gather_call(source: Source, node: ast.expr) -> ast.Call | None:
    """Return the lookup of rows in ``node``."""
    holder = find.parents_of(source).get(node)
    if not isinstance(holder, ast.Call) or name_bindings.qualified_name(source, holder.func) not in GATHER_FUNCTIONS:
        return None
    plain = (
        holder.args[:1] == [node]
        and len(holder.args) <= 2
        and all(k.arg in ("indices", "ids") for k in holder.keywords)
    )
    return holder if plain else None


def _call_over_rows(source: Source, call: ast.Call, looked: str) -> str:
    """Return the text of ``call`` with ``looked`` instead of the table, along the last dimension."""
    along = name_bindings.qualified_name(source, call.func) in ROW_FUNCTIONS
    texts = ["axis=-1"] if along else [edits.node_text(source, a) for a in call.args[1:]]
    texts += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords if not (along and k.arg == "axis")]
    return f"{edits.node_text(source, call.func)}({', '.join([looked, *texts])})"


MAP_FUNCTIONS = ("tensorflow.map_fn", "tensorflow.compat.v1.map_fn")
# Arguments that only control how the loop runs, or describe its results.
RUN_ARGUMENTS = frozenset({"parallel_iterations", "back_prop", "swap_memory", "infer_shape"})
FORMAT_ARGUMENTS = frozenset({"dtype", "fn_output_signature"})
# TensorFlow functions that treat many rows like one and draw no random numbers. The shape of the result is the same for
# all rows.
UNIFORM_FUNCTIONS = frozenset(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_logsumexp reduce_std reduce_variance exp log "
    "log1p sqrt rsqrt square abs sign maximum minimum where cast matmul norm l2_normalize softmax log_softmax "
    "sigmoid relu tanh expand_dims concat stack transpose squeeze add subtract multiply divide divide_no_nan pow "
    "clip_by_value cos sin softplus squared_difference greater less equal not_equal greater_equal less_equal "
    "logical_and logical_or logical_not einsum tensordot reshape shape size rank zeros_like ones_like identity "
    "stop_gradient one_hot gather cumsum argmax argmin erf floor ceil round tan atan atan2 reciprocal trace "
    "diag_part reverse tile roll pad negative elu selu gelu silu leaky_relu relu6 softsign log_sigmoid bias_add "
    "constant add_n l2_loss floormod floordiv truediv".split()
)
# Other statements may treat rows differently or have side effects.
PLAIN_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
EXCLUDED_EXPRESSIONS = (
    ast.IfExp, ast.BoolOp, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Starred, ast.Lambda,
    *scope_names.COMPREHENSIONS,
)  # fmt: skip


def use_vectorized_map(source: Source, line: int) -> tuple[Edit, ...]:
    """Replace the ``tf.map_fn`` at ``line`` by ``tf.vectorized_map``.

    Empty if the function may treat rows differently.
    """
    found = [
        c
        for c in node_lookup.calls_at_line(source, line, "map_fn")
        if name_bindings.qualified_name(source, c.func) in MAP_FUNCTIONS
    ]
    if len(found) != 1:
        return ()
    call = found[0]
    function, elements = node_lookup.argument_value(call, "fn", 0), node_lookup.argument_value(call, "elems", 1)
    if function is None or elements is None or len(call.args) > 2 or not isinstance(call.func, ast.Attribute):
        return ()
    more = {k.arg for k in call.keywords} - {"fn", "elems"}
    if not all(
        name in RUN_ARGUMENTS or (name in FORMAT_ARGUMENTS and _has_one_format(source, call, name)) for name in more
    ):
        return ()
    if not _is_uniform(source, function, call, set()):
        return ()
    name = f"{edits.node_text(source, call.func.value)}.vectorized_map"
    arguments = [edits.node_text(source, function), edits.node_text(source, elements)]
    return (edits.replace_node(source, call, f"{name}({', '.join(arguments)})"),)


def _has_one_format(source: Source, call: ast.Call, name: str | None) -> bool:
    """Whether the stated number format of the result is the one it has anyway."""
    argument = node_lookup.argument_value(call, name or "")
    return argument is not None and name_bindings.qualified_name(source, argument).startswith("tensorflow.")


def _is_uniform(source: Source, node: ast.expr | ast.FunctionDef, near: ast.AST, open_: set[int]) -> bool:
    """Whether a function only uses known operations and treats every row the same."""
    function: ast.AST | None = node
    if isinstance(node, (ast.Name, ast.Attribute)):
        function = _file_function(source, node, near)
        if function is None:
            return _is_known_function(source, node)
    if not isinstance(function, (ast.FunctionDef, ast.Lambda)) or id(function) in open_:
        return False
    if isinstance(function, ast.FunctionDef) and function.decorator_list:
        return False
    if isinstance(function, ast.FunctionDef) and not all(_is_plain_statement(s) for s in function.body):
        return False
    return all(
        _is_uniform_part(source, part, open_ | {id(function)})
        for b in scope_names.scope_body(function)
        for part in syntax_tree.walk(b)
    )


def _is_plain_statement(node: ast.stmt) -> bool:
    """Whether a statement only assigns names or returns a value."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return isinstance(node, PLAIN_STATEMENTS) and all(
        isinstance(t, (ast.Name, ast.Tuple, ast.Store)) for one in targets for t in syntax_tree.walk(one)
    )


def _is_uniform_part(source: Source, node: ast.AST, open_: set[int]) -> bool:
    if isinstance(node, EXCLUDED_EXPRESSIONS):
        return False
    if not isinstance(node, ast.Call):
        return True
    own = _file_function(source, node.func, node) if isinstance(node.func, (ast.Name, ast.Attribute)) else None
    return _is_uniform(source, own, node, open_) if own is not None else _is_known_function(source, node.func)


def _is_known_function(source: Source, function: ast.AST) -> bool:
    name = name_bindings.qualified_name(source, function)
    if not name.startswith(("tensorflow.", "keras.ops.")) or "random" in name:
        return False
    return name.rpartition(".")[2] in UNIFORM_FUNCTIONS


def _file_function(source: Source, node: ast.Name | ast.Attribute, near: ast.AST) -> ast.FunctionDef | None:
    """Return the named function of the file, or the method of the same object."""
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return None
        holder = class_members.enclosing_class(source, near)
        methods = holder.body if holder is not None else []
        found = [m for m in methods if isinstance(m, ast.FunctionDef) and m.name == node.attr]
        return found[0] if len(found) == 1 else None
    return node_lookup.function_named(source, node.id, near)
