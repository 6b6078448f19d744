"""The kind of an expression's value: a tensor, an array, a changing number, a constant, a data set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

TENSOR, ARRAY, NUMBER, CONSTANT, UNKNOWN = "tensor", "array", "number", "constant", "unknown"
DATASET_METHODS = frozenset("batch prefetch shuffle repeat cache take skip padded_batch from_tensor_slices".split())
NUMBER_FUNCTIONS = frozenset("float int len range round abs min max sum time perf_counter item".split())
ARRAY_METHODS = frozenset("numpy astype tolist to_numpy permutation reshape copy".split())
# Functions of TensorFlow whose result is not one tensor.
MULTIPLE_OUTPUT_OPS = frozenset(
    "split unstack meshgrid top_k moments svd eigh eig unique unique_with_counts while_loop cond case switch_case "
    "map_fn scan foldl data keras nest layers Variable sparse ragged function".split()
)
MAX_DEPTH = 6


def kind_of(source: Source, node: ast.AST, depth: int = MAX_DEPTH) -> str:
    """The kind of the value of ``node``."""
    if isinstance(node, ast.Constant):
        return CONSTANT
    if isinstance(node, ast.Name):
        return _kind_of_name(source, node, depth) if depth else UNKNOWN
    if isinstance(node, ast.UnaryOp):
        return kind_of(source, node.operand, depth)
    if isinstance(node, ast.BinOp):
        return _joined_kind({kind_of(source, node.left, depth), kind_of(source, node.right, depth)})
    if isinstance(node, ast.IfExp):
        return _joined_kind({kind_of(source, node.body, depth), kind_of(source, node.orelse, depth)})
    if isinstance(node, ast.Subscript):
        inner = kind_of(source, node.value, depth)
        return inner if inner in (TENSOR, ARRAY) else UNKNOWN
    if isinstance(node, ast.Call):
        return _kind_of_call(source, node, depth)
    return UNKNOWN


def _joined_kind(kinds: set[str]) -> str:
    for kind in (TENSOR, ARRAY, UNKNOWN, NUMBER):
        if kind in kinds:
            return kind
    return CONSTANT


def _kind_of_call(source: Source, call: ast.Call, depth: int) -> str:
    name, whole = node_lookup.called_name(call), scope_names.resolved_name(source, call.func)
    if whole.startswith("tensorflow.data") or (isinstance(call.func, ast.Attribute) and name in DATASET_METHODS):
        return UNKNOWN
    if name in ARRAY_METHODS or whole.startswith("numpy.") or (name == "load_data" and ".datasets." in whole):
        return ARRAY
    if whole.startswith(("tensorflow.", "keras.ops.")):
        return TENSOR
    if name in NUMBER_FUNCTIONS or whole.startswith("math."):
        return NUMBER
    if name == "next" and call.args and is_dataset(source, call.args[0], depth):
        return TENSOR
    return TENSOR if _returns_tensors(source, call) else UNKNOWN


def _returns_tensors(source: Source, call: ast.Call) -> bool:
    """Whether a ``tf.function`` of this file returns one tensor, or a tuple of tensors that the caller unpacks."""
    made = node_lookup.function_named(source, node_lookup.called_name(call), call)
    marks = [
        scope_names.resolved_name(source, d.func if isinstance(d, ast.Call) else d)
        for d in (made.decorator_list if made else ())
    ]
    if made is None or "tensorflow.function" not in marks:
        return False
    given = [n.value for n in scope_names.nodes_in_scope(made.body) if isinstance(n, ast.Return)]
    holder = node_lookup.parents_of(source).get(call)
    apart = isinstance(holder, ast.Assign) and all(isinstance(t, ast.Tuple) for t in holder.targets)
    kinds = (ast.Tuple,) if apart else (ast.Name, ast.BinOp, ast.Call)
    return bool(given) and all(isinstance(v, kinds) and _is_tensor_result(source, v) for v in given)


def _is_tensor_result(source: Source, value: ast.expr | None) -> bool:
    """Whether a graph's return value is a tensor or a tuple of tensors."""
    if isinstance(value, ast.Tuple):
        return all(isinstance(e, (ast.Name, ast.BinOp)) or _is_op_result(source, e) for e in value.elts)
    if isinstance(value, ast.Name):
        scope = binding_function(source, value)
        found = scope_names.binding_statements(source, value.id, scope) if scope is not None else []
        return bool(found) and all(
            isinstance(n, ast.Assign)
            and _value_assigned(n, value.id) is not None
            and _is_op_result(source, _value_assigned(n, value.id))
            for n in found
        )
    return isinstance(value, ast.BinOp) or _is_op_result(source, value)


def _is_op_result(source: Source, value: ast.expr | None) -> bool:
    """Whether an expression is the result of a TensorFlow op with one output."""
    if isinstance(value, ast.BinOp):
        return True
    whole = scope_names.resolved_name(source, value.func) if isinstance(value, ast.Call) else ""
    several = any(part in MULTIPLE_OUTPUT_OPS for part in whole.split("."))
    return whole.startswith(("tensorflow.", "keras.ops.")) and not several


def _kind_of_name(source: Source, name: ast.Name, depth: int) -> str:
    scope = binding_function(source, name)
    if scope is None:
        return UNKNOWN
    if isinstance(scope, FUNCTION_NODES) and name.id in scope_names.parameter_names(scope):
        kinds = {kind_of(source, given, depth - 1) for given in arguments_for(source, scope, name.id)}
        return _joined_kind(kinds) if kinds else UNKNOWN
    kinds = set()
    for node in scope_names.binding_statements(source, name.id, scope):
        kinds.add(_kind_bound_by(source, node, name.id, depth))
    if scope_names.is_rebound(source, name.id, scope) and kinds <= {CONSTANT, NUMBER}:
        return NUMBER
    return _joined_kind(kinds) if kinds else UNKNOWN


def _kind_bound_by(source: Source, node: ast.AST, name: str, depth: int) -> str:
    if isinstance(node, ast.AugAssign):
        return kind_of(source, node.value, depth - 1)
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name:
                return NUMBER if _counts_itself(node.value, name) else kind_of(source, node.value, depth - 1)
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(one, ast.Name) and one.id == name:
                        return kind_of(source, value, depth - 1)
        return kind_of(source, node.value, depth - 1) if isinstance(node.value, ast.Call) else UNKNOWN
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _kind_of_loop_item(source, node.target, node.iter, name, depth)
    return UNKNOWN


def _counts_itself(value: ast.expr, name: str) -> bool:
    """Whether it is a number computed from itself and constants: ``lr * 0.99``."""
    parts = [n for n in syntax_tree.walk(value) if isinstance(n, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))]
    return bool(parts) and all(isinstance(n, ast.Name) and n.id == name for n in parts)


def _kind_of_loop_item(source: Source, target: ast.expr, over: ast.expr, name: str, depth: int) -> str:
    if isinstance(over, ast.Call) and node_lookup.called_name(over) == "range":
        return NUMBER
    if isinstance(over, ast.Call) and node_lookup.called_name(over) == "enumerate" and isinstance(target, ast.Tuple):
        first = target.elts[0]
        if isinstance(first, ast.Name) and first.id == name:
            return NUMBER
        return TENSOR if over.args and is_dataset(source, over.args[0], depth) else UNKNOWN
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("tqdm", "Progbar", "trange") and over.args:
        return _kind_of_loop_item(source, target, over.args[0], name, depth)
    return TENSOR if is_dataset(source, over, depth) else UNKNOWN


def is_dataset(source: Source, node: ast.AST, depth: int = MAX_DEPTH) -> bool:
    """Whether ``node`` is a ``tf.data`` data set or an iterator of one."""
    if isinstance(node, ast.Call):
        if any(
            scope_names.resolved_name(source, c.func).startswith("tensorflow.data.")
            for c in node_lookup.chain_calls(node)
        ):
            return True
        if node_lookup.called_name(node) == "iter" and node.args:
            return is_dataset(source, node.args[0], depth)
        root = list(node_lookup.chain_calls(node))[-1]
        if isinstance(root.func, ast.Attribute) and root.func.attr in (*DATASET_METHODS, "map"):
            return is_dataset(source, root.func.value, depth)
        made = node_lookup.function_named(source, node_lookup.called_name(root), node) if depth else None
        returns = (
            [n for n in scope_names.nodes_in_scope(made.body) if isinstance(n, ast.Return) and n.value] if made else []
        )
        return bool(returns) and all(n.value is not None and is_dataset(source, n.value, depth - 1) for n in returns)
    if not isinstance(node, ast.Name) or not depth:
        return False
    scope = binding_function(source, node)
    if scope is None:
        return False
    if isinstance(scope, FUNCTION_NODES) and node.id in scope_names.parameter_names(scope):
        given = list(arguments_for(source, scope, node.id))
        return bool(given) and all(is_dataset(source, g, depth - 1) for g in given)
    values = [
        n.value
        for n in scope_names.binding_statements(source, node.id, scope)
        if isinstance(n, ast.Assign) and n.value is not None
    ]
    plain = [v for v in values if not _is_own_operation(v, node.id)]
    return bool(plain) and all(is_dataset(source, v, depth - 1) for v in plain)


def _is_own_operation(value: ast.expr, name: str) -> bool:
    """Whether it is an operation on the name itself: ``ds.map(f)`` for ``ds``."""
    if not isinstance(value, ast.Call):
        return False
    root = list(node_lookup.chain_calls(value))[-1]
    return isinstance(root.func, ast.Attribute) and scope_names.dotted_name(root.func.value) == name


def binding_function(source: Source, name: ast.Name) -> ast.AST | None:
    """The function or module that binds the name at ``name``; lambdas do not count."""
    scope: ast.AST | None = node_lookup.enclosing_function(source, name)
    while scope is not None:
        if name.id in scope_names.parameter_names(scope):
            return scope
        if name.id in scope_names.bound_names(
            scope_names.scope_body(scope)
        ) and name.id not in scope_names.declared_outer_names(scope):
            return scope
        scope = node_lookup.enclosing_function(source, scope)
    return source.tree if name.id in scope_names.bound_names(source.tree.body) else None


def arguments_for(source: Source, function: ast.AST, parameter: str) -> Iterator[ast.expr]:
    """The arguments that calls by name in this file give for ``parameter``; defaults do not count."""
    for call in function_calls(source, function):
        found = argument_in(function, call, parameter)
        if found is not None:
            yield found


def function_calls(source: Source, function: ast.AST) -> list[ast.Call]:
    name = getattr(function, "name", None)
    return list(call_index.index_of(source).called(name)) if name else []


def argument_in(function: ast.AST, call: ast.Call, parameter: str) -> ast.expr | None:
    """The argument of ``call`` for ``parameter``; None if stars hide it."""
    names = scope_names.parameter_names(function)
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    if len(call.args) == 1 and isinstance(call.args[0], ast.Starred) and not call.keywords:
        return call.args[0].value  # an item of it has the same kind
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    return node_lookup.argument_value(call, parameter, names.index(parameter)) if parameter in names else None


def is_float32(source: Source, node: ast.AST, depth: int = MAX_DEPTH) -> bool:
    """Whether ``node`` surely holds float32, or is a tensor."""
    kind = kind_of(source, node, depth)
    if kind == TENSOR:
        return True
    if isinstance(node, ast.Call):
        texts = {
            str(getattr(n, "value", getattr(n, "attr", "")))
            for a in _dtype_arguments(node)
            for n in syntax_tree.walk(a)
        }
        return "float32" in texts
    if isinstance(node, ast.Subscript):
        return is_float32(source, node.value, depth)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return all(is_float32(source, s, depth) or isinstance(s, ast.Constant) for s in sides)
    if isinstance(node, ast.Name) and depth:
        scope = binding_function(source, node)
        if scope is None:
            return False
        if isinstance(scope, FUNCTION_NODES) and node.id in scope_names.parameter_names(scope):
            given = list(arguments_for(source, scope, node.id))
            return bool(given) and all(is_float32(source, g, depth - 1) for g in given)
        found = scope_names.binding_statements(source, node.id, scope)
        values = [value for n in found if (value := _value_assigned(n, node.id)) is not None]
        return bool(found) and len(values) == len(found) and all(is_float32(source, v, depth - 1) for v in values)
    return False


def _value_assigned(node: ast.AST, name: str) -> ast.expr | None:
    """The value that an assignment gives to ``name``, through tuples of equal length."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    if isinstance(target, ast.Name):
        return node.value
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        for one, value in zip(target.elts, node.value.elts, strict=False):
            if isinstance(one, ast.Name) and one.id == name:
                return value
    return None


def _dtype_arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that name a dtype."""
    given = [k.value for k in call.keywords if k.arg == "dtype"]
    if node_lookup.called_name(call) in ("astype", "constant", "zeros", "ones", "array", "asarray", "cast"):
        given += call.args
    return given
