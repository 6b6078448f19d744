"""The kind of an expression's value: a tensor, an array, a changing number, a constant, a data set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading import finding, index, scopes

TENSOR, ARRAY, NUMBER, CONSTANT, UNKNOWN = "tensor", "array", "number", "constant", "unknown"
ITERATED = frozenset("batch prefetch shuffle repeat cache take skip padded_batch from_tensor_slices".split())
NUMBERS = frozenset("float int len range round abs min max sum time perf_counter item".split())
ARRAYS = frozenset("numpy astype tolist to_numpy permutation reshape copy".split())
# Functions of TensorFlow whose result is not one tensor.
SEVERAL = frozenset(
    "split unstack meshgrid top_k moments svd eigh eig unique unique_with_counts while_loop cond case switch_case "
    "map_fn scan foldl data keras nest layers Variable sparse ragged function".split()
)
DEPTH = 6


def of(source: Source, node: ast.AST, depth: int = DEPTH) -> str:
    """The kind of the value of ``node``."""
    if isinstance(node, ast.Constant):
        return CONSTANT
    if isinstance(node, ast.Name):
        return _of_name(source, node, depth) if depth else UNKNOWN
    if isinstance(node, ast.UnaryOp):
        return of(source, node.operand, depth)
    if isinstance(node, ast.BinOp):
        return _joined({of(source, node.left, depth), of(source, node.right, depth)})
    if isinstance(node, ast.IfExp):
        return _joined({of(source, node.body, depth), of(source, node.orelse, depth)})
    if isinstance(node, ast.Subscript):
        inner = of(source, node.value, depth)
        return inner if inner in (TENSOR, ARRAY) else UNKNOWN
    if isinstance(node, ast.Call):
        return _of_call(source, node, depth)
    return UNKNOWN


def _joined(kinds: set[str]) -> str:
    for kind in (TENSOR, ARRAY, UNKNOWN, NUMBER):
        if kind in kinds:
            return kind
    return CONSTANT


def _of_call(source: Source, call: ast.Call, depth: int) -> str:
    name, whole = finding.called(call), scopes.full(source, call.func)
    if whole.startswith("tensorflow.data") or (isinstance(call.func, ast.Attribute) and name in ITERATED):
        return UNKNOWN
    if name in ARRAYS or whole.startswith("numpy.") or (name == "load_data" and ".datasets." in whole):
        return ARRAY
    if whole.startswith(("tensorflow.", "keras.ops.")):
        return TENSOR
    if name in NUMBERS or whole.startswith("math."):
        return NUMBER
    if name == "next" and call.args and dataset(source, call.args[0], depth):
        return TENSOR
    return TENSOR if _of_graph(source, call) else UNKNOWN


def _of_graph(source: Source, call: ast.Call) -> bool:
    """Whether a ``tf.function`` of this file returns one tensor, or a tuple of tensors that the caller unpacks."""
    made = finding.defined(source, finding.called(call), call)
    marks = [
        scopes.full(source, d.func if isinstance(d, ast.Call) else d) for d in (made.decorator_list if made else ())
    ]
    if made is None or "tensorflow.function" not in marks:
        return False
    given = [n.value for n in scopes.own(made.body) if isinstance(n, ast.Return)]
    holder = finding.parents(source).get(call)
    apart = isinstance(holder, ast.Assign) and all(isinstance(t, ast.Tuple) for t in holder.targets)
    kinds = (ast.Tuple,) if apart else (ast.Name, ast.BinOp, ast.Call)
    return bool(given) and all(isinstance(v, kinds) and _plain(source, v) for v in given)


def _plain(source: Source, value: ast.expr | None) -> bool:
    """Whether a graph's return value is a tensor or a tuple of tensors."""
    if isinstance(value, ast.Tuple):
        return all(isinstance(e, (ast.Name, ast.BinOp)) or _by_op(source, e) for e in value.elts)
    if isinstance(value, ast.Name):
        scope = where_bound(source, value)
        found = scopes.binders(source, value.id, scope) if scope is not None else []
        return bool(found) and all(
            isinstance(n, ast.Assign)
            and _value_for(n, value.id) is not None
            and _by_op(source, _value_for(n, value.id))
            for n in found
        )
    return isinstance(value, ast.BinOp) or _by_op(source, value)


def _by_op(source: Source, value: ast.expr | None) -> bool:
    """Whether an expression is the result of a TensorFlow op with one output."""
    if isinstance(value, ast.BinOp):
        return True
    whole = scopes.full(source, value.func) if isinstance(value, ast.Call) else ""
    several = any(part in SEVERAL for part in whole.split("."))
    return whole.startswith(("tensorflow.", "keras.ops.")) and not several


def _of_name(source: Source, name: ast.Name, depth: int) -> str:
    scope = where_bound(source, name)
    if scope is None:
        return UNKNOWN
    if isinstance(scope, FUNCTIONS) and name.id in scopes.parameters(scope):
        kinds = {of(source, given, depth - 1) for given in given_to(source, scope, name.id)}
        return _joined(kinds) if kinds else UNKNOWN
    kinds = set()
    for node in scopes.binders(source, name.id, scope):
        kinds.add(_bound_by(source, node, name.id, depth))
    if scopes.changes(source, name.id, scope) and kinds <= {CONSTANT, NUMBER}:
        return NUMBER
    return _joined(kinds) if kinds else UNKNOWN


def _bound_by(source: Source, node: ast.AST, name: str, depth: int) -> str:
    if isinstance(node, ast.AugAssign):
        return of(source, node.value, depth - 1)
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name:
                return NUMBER if _counts_itself(node.value, name) else of(source, node.value, depth - 1)
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(one, ast.Name) and one.id == name:
                        return of(source, value, depth - 1)
        return of(source, node.value, depth - 1) if isinstance(node.value, ast.Call) else UNKNOWN
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _iterated(source, node.target, node.iter, name, depth)
    return UNKNOWN


def _counts_itself(value: ast.expr, name: str) -> bool:
    """Whether it is a number computed from itself and constants: ``lr * 0.99``."""
    parts = [n for n in trees.walk(value) if isinstance(n, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))]
    return bool(parts) and all(isinstance(n, ast.Name) and n.id == name for n in parts)


def _iterated(source: Source, target: ast.expr, over: ast.expr, name: str, depth: int) -> str:
    if isinstance(over, ast.Call) and finding.called(over) == "range":
        return NUMBER
    if isinstance(over, ast.Call) and finding.called(over) == "enumerate" and isinstance(target, ast.Tuple):
        first = target.elts[0]
        if isinstance(first, ast.Name) and first.id == name:
            return NUMBER
        return TENSOR if over.args and dataset(source, over.args[0], depth) else UNKNOWN
    if isinstance(over, ast.Call) and finding.called(over) in ("tqdm", "Progbar", "trange") and over.args:
        return _iterated(source, target, over.args[0], name, depth)
    return TENSOR if dataset(source, over, depth) else UNKNOWN


def dataset(source: Source, node: ast.AST, depth: int = DEPTH) -> bool:
    """Whether ``node`` is a ``tf.data`` data set or an iterator of one."""
    if isinstance(node, ast.Call):
        if any(scopes.full(source, c.func).startswith("tensorflow.data.") for c in finding.chain(node)):
            return True
        if finding.called(node) == "iter" and node.args:
            return dataset(source, node.args[0], depth)
        root = list(finding.chain(node))[-1]
        if isinstance(root.func, ast.Attribute) and root.func.attr in (*ITERATED, "map"):
            return dataset(source, root.func.value, depth)
        made = finding.defined(source, finding.called(root), node) if depth else None
        returns = [n for n in scopes.own(made.body) if isinstance(n, ast.Return) and n.value] if made else []
        return bool(returns) and all(n.value is not None and dataset(source, n.value, depth - 1) for n in returns)
    if not isinstance(node, ast.Name) or not depth:
        return False
    scope = where_bound(source, node)
    if scope is None:
        return False
    if isinstance(scope, FUNCTIONS) and node.id in scopes.parameters(scope):
        given = list(given_to(source, scope, node.id))
        return bool(given) and all(dataset(source, g, depth - 1) for g in given)
    values = [
        n.value for n in scopes.binders(source, node.id, scope) if isinstance(n, ast.Assign) and n.value is not None
    ]
    plain = [v for v in values if not _of_itself(v, node.id)]
    return bool(plain) and all(dataset(source, v, depth - 1) for v in plain)


def _of_itself(value: ast.expr, name: str) -> bool:
    """Whether it is an operation on the name itself: ``ds.map(f)`` for ``ds``."""
    if not isinstance(value, ast.Call):
        return False
    root = list(finding.chain(value))[-1]
    return isinstance(root.func, ast.Attribute) and scopes.dotted(root.func.value) == name


def where_bound(source: Source, name: ast.Name) -> ast.AST | None:
    """The function or module that binds the name at ``name``; lambdas do not count."""
    scope: ast.AST | None = finding.function(source, name)
    while scope is not None:
        if name.id in scopes.parameters(scope):
            return scope
        if name.id in scopes.bound(scopes.body(scope)) and name.id not in scopes.outer(scope):
            return scope
        scope = finding.function(source, scope)
    return source.tree if name.id in scopes.bound(source.tree.body) else None


def given_to(source: Source, function: ast.AST, parameter: str) -> Iterator[ast.expr]:
    """The arguments that calls by name in this file give for ``parameter``; defaults do not count."""
    for call in calls_of(source, function):
        found = given_in(function, call, parameter)
        if found is not None:
            yield found


def calls_of(source: Source, function: ast.AST) -> list[ast.Call]:
    name = getattr(function, "name", None)
    return list(index.of(source).called(name)) if name else []


def given_in(function: ast.AST, call: ast.Call, parameter: str) -> ast.expr | None:
    """The argument of ``call`` for ``parameter``; None if stars hide it."""
    names = scopes.parameters(function)
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    if len(call.args) == 1 and isinstance(call.args[0], ast.Starred) and not call.keywords:
        return call.args[0].value  # an item of it has the same kind
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    return finding.keyword(call, parameter, names.index(parameter)) if parameter in names else None


def single(source: Source, node: ast.AST, depth: int = DEPTH) -> bool:
    """Whether ``node`` surely holds float32, or is a tensor."""
    kind = of(source, node, depth)
    if kind == TENSOR:
        return True
    if isinstance(node, ast.Call):
        texts = {str(getattr(n, "value", getattr(n, "attr", ""))) for a in _types(node) for n in trees.walk(a)}
        return "float32" in texts
    if isinstance(node, ast.Subscript):
        return single(source, node.value, depth)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return all(single(source, s, depth) or isinstance(s, ast.Constant) for s in sides)
    if isinstance(node, ast.Name) and depth:
        scope = where_bound(source, node)
        if scope is None:
            return False
        if isinstance(scope, FUNCTIONS) and node.id in scopes.parameters(scope):
            given = list(given_to(source, scope, node.id))
            return bool(given) and all(single(source, g, depth - 1) for g in given)
        found = scopes.binders(source, node.id, scope)
        values = [value for n in found if (value := _value_for(n, node.id)) is not None]
        return bool(found) and len(values) == len(found) and all(single(source, v, depth - 1) for v in values)
    return False


def _value_for(node: ast.AST, name: str) -> ast.expr | None:
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


def _types(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that name a dtype."""
    given = [k.value for k in call.keywords if k.arg == "dtype"]
    if finding.called(call) in ("astype", "constant", "zeros", "ones", "array", "asarray", "cast"):
        given += call.args
    return given
