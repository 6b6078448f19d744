"""Edits of table lookups: products with one-hot rows, and work on all rows before a lookup."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings
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
PRODUCT_FUNCTIONS = ("matmul", "dot", "tensordot", "einsum")
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
    rows = _surrounding_cast(source, hot)
    name = _assigned_name(source, rows)
    done: list[Edit] = []
    for one in name_bindings.reads_of(source, name.id) if name is not None else [rows]:
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
    for call in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]:
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
    made = [v for v in _origin_expressions(source, node) if not (isinstance(v, ast.Constant) and v.value is None)]
    return len(made) == 1 and isinstance(made[0], ast.Call) and _dimension_count(made[0]) == 2


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
        if shape is None:
            shape = next((a for a in call.args if isinstance(a, (ast.Tuple, ast.List))), None)
        return len(shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else None
    if name == "Variable":
        value = find.argument_value(call, "initial_value", 0)
        inside = [n for n in syntax_tree.walk(value) if isinstance(n, ast.Call)] if value is not None else []
        given = [s for c in inside for s in (find.argument_value(c, "shape", 0), find.argument_value(c, "size"))]
        shapes = [s for s in given if isinstance(s, (ast.Tuple, ast.List))]
        drawn = [c for c in inside if find.called_name(c) in ("randn", "rand") and len(c.args) == 2]
        if len({len(s.elts) for s in shapes}) == 1:
            return len(shapes[0].elts)
        return 2 if drawn and not shapes else None
    return None


def _is_plain_one_hot(hot: ast.Call) -> bool:
    """Whether each row has a single 1, in the last dimension."""
    if len(hot.args) > 2 or any(k.arg not in ("indices", "depth", "dtype", "axis", "x", "num_classes", "name") for k in
                                hot.keywords):  # fmt: skip
        return False
    axis = find.argument_value(hot, "axis")
    return axis is None or ast.unparse(axis) == "-1"


def _surrounding_cast(source: Source, node: ast.expr) -> ast.expr:
    """Return ``node``, or the cast around it."""
    holder = find.parents_of(source).get(node)
    if isinstance(holder, ast.Call) and holder.args[:1] == [node] and find.called_name(holder) == "cast":
        return holder
    return node


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
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.MatMult) and holder.left is rows:
        return (holder, holder.right) if is_table(source, holder.right) else None
    if not isinstance(holder, ast.Call) or find.called_name(holder) not in PRODUCT_FUNCTIONS:
        return None
    name, given = find.called_name(holder), list(holder.args)
    if not name_bindings.qualified_name(source, holder.func).startswith(("tensorflow.", "keras.")) or any(
        k.arg not in ("axes", "a", "b") for k in holder.keywords
    ):
        return None
    if name == "einsum":
        spec = given[0].value if given and isinstance(given[0], ast.Constant) else None
        if len(given) == 3 and given[1] is rows and isinstance(spec, str) and _is_lookup_equation(spec):
            return holder, given[2]
        return None
    if name == "tensordot":
        axes = find.argument_value(holder, "axes", 2)
        one = axes is not None and ast.unparse(axes) in ("1", "[[-1], [0]]", "([-1], [0])", "[-1, 0]")
        return (holder, given[1]) if one and len(given) >= 2 and given[0] is rows else None
    if len(given) == 2 and given[0] is rows and not holder.keywords and is_table(source, given[1]):
        return holder, given[1]
    return None


def _is_lookup_equation(spec: str) -> bool:
    """Whether an equation such as ``"blv,vd->bld"`` only sums over the rows of the second operand."""
    left, arrow, result = spec.replace(" ", "").partition("->")
    first, _, second = left.partition(",")
    summed = first[-1:]
    plain = bool(arrow) and "," not in second and "." not in spec and len(set(first)) == len(first)
    return (
        plain
        and len(second) >= 2
        and second[0] == summed
        and summed not in second[1:]
        and (result == first[:-1] + second[1:] and not set(first[:-1]) & set(second))
    )


def _ids_unchanged(source: Source, ids: ast.expr, made: ast.stmt, done: list[Edit]) -> bool:
    """Whether the ids do not change between the one-hot rows and the product."""
    names = {n.id for n in syntax_tree.walk(ids) if isinstance(n, ast.Name)}
    last = max(e.start for e in done)
    return not any(
        isinstance(n, ast.Name)
        and n.id in names
        and isinstance(n.ctx, ast.Store)
        and edits.node_end(made) < edits.node_start(n) < last
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
    given = ["axis=-1"] if along else [edits.node_text(source, a) for a in call.args[1:]]
    given += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords if not (along and k.arg == "axis")]
    return f"{edits.node_text(source, call.func)}({', '.join([looked, *given])})"
