"""``tf.map_fn`` in a step as ``tf.vectorized_map``: the same function of each row, all rows at once."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MAP_FUNCTIONS = ("tensorflow.map_fn", "tensorflow.compat.v1.map_fn")
# Arguments that only control how the loop runs, or describe its results.
RUN_ARGUMENTS = frozenset({"parallel_iterations", "back_prop", "swap_memory", "infer_shape"})
FORMAT_ARGUMENTS = frozenset({"dtype", "fn_output_signature"})
# TensorFlow functions that treat many rows like one and draw no random numbers.
ROW_FUNCTIONS = frozenset(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_logsumexp reduce_std reduce_variance exp log "
    "log1p sqrt rsqrt square abs sign maximum minimum where cast matmul norm l2_normalize softmax log_softmax "
    "sigmoid relu tanh expand_dims concat stack transpose squeeze add subtract multiply divide divide_no_nan pow "
    "clip_by_value cos sin softplus squared_difference greater less equal not_equal greater_equal less_equal "
    "logical_and logical_or logical_not einsum tensordot".split()
)
# Further functions that have a form for many rows. The shape of the result is the same for all rows.
SHAPE_FUNCTIONS = frozenset(
    "reshape shape size rank zeros_like ones_like identity stop_gradient one_hot gather cumsum argmax argmin erf "
    "floor ceil round sin tan atan atan2 sigmoid reciprocal trace diag_part reverse tile roll pad negative elu selu "
    "gelu silu leaky_relu relu6 softsign log_sigmoid bias_add constant add_n l2_loss floormod floordiv truediv".split()
)
UNIFORM_FUNCTIONS = ROW_FUNCTIONS | SHAPE_FUNCTIONS
# Other statements may treat rows differently or have side effects.
PLAIN_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
EXCLUDED_EXPRESSIONS = (
    ast.IfExp,
    ast.BoolOp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
    ast.Starred,
    ast.Lambda,
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
    given = [edits.node_text(source, function), edits.node_text(source, elements)]
    return (edits.replace_node(source, call, f"{name}({', '.join(given)})"),)


def _has_one_format(source: Source, call: ast.Call, name: str | None) -> bool:
    """Whether the stated number format of the result is the one it has anyway."""
    given = node_lookup.argument_value(call, name or "")
    return given is not None and name_bindings.qualified_name(source, given).startswith("tensorflow.")


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
    if isinstance(node, EXCLUDED_EXPRESSIONS + COMPREHENSIONS):
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


def many_outputs_advice(source: Source, line: int) -> str:
    """Return advice for a model with very many outputs that is compiled or fitted at ``line``; empty if it has few."""
    calls = node_lookup.calls_at_line(source, line, "compile", "fit")
    models = {ast.unparse(c.func.value) for c in calls if isinstance(c.func, ast.Attribute)}
    for call in (
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "compile"
    ):
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        loss = node_lookup.argument_value(call, "loss", 1)
        if owner not in models or not isinstance(loss, (ast.DictComp, ast.ListComp)):
            continue
        over = ast.unparse(loss.generators[0].iter)
        return (
            f"give the model one output with a column for each of `{over}` (layers.EinsumDense for all heads at once), "
            "and that one loss and one metric, in place of an output, a loss and a metric for each"
        )
    return ""
