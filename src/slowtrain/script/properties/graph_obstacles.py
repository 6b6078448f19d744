"""Whether a piece of a step's Python may become one graph: code that runs only while tracing must not matter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from slowtrain.script.navigation import call_arguments, call_index, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

# Calls that give Python a value, or that a graph would run only once.
READBACK_CALLS = frozenset(
    "numpy item tolist print input open next eval exec write flush log info debug warning".split()
)
NUMBER_BUILTINS = frozenset("float int bool round str repr format sorted min max sum any all".split())
KERAS_LOOP_METHODS = frozenset("fit predict evaluate train_on_batch test_on_batch predict_on_batch compile".split())
MUTATING_METHODS = frozenset(
    "append extend insert pop remove clear update setdefault appendleft popleft discard".split()
)
VARIABLE_MAKERS = ("layers.", "optimizers.", "metrics.", "Sequential", "Model", "Variable", "models.")
RUN_ONCE_PREFIXES = (
    "numpy.random",
    "random.",
    "time.",
    "datetime.",
    "os.",
    "sys.",
    "logging.",
    "wandb.",
    "mlflow.",
    "tqdm",
)
STATIC_ATTRIBUTES = frozenset("shape dtype ndim rank name trainable".split())
LIST_ATTRIBUTES = frozenset(
    "trainable_variables trainable_weights variables weights layers metrics losses non_trainable_variables".split()
)
FLAG_PARAMETERS = frozenset({"training", "self", "cls", "mask", "is_training", "train"})
RATE_ATTRIBUTES = frozenset({"learning_rate", "lr", "run_eagerly"})


class GraphObstacle(Exception):
    """Why the piece may not become a graph."""


def graph_obstacle(
    source: Source,
    statements: Sequence[ast.stmt],
    tensors: set[str],
    fixed: bool = True,
    rewritten: Sequence[ast.AST] = (),
) -> str | None:
    """The obstacle to making ``statements`` a graph, in which ``tensors`` hold tensors; None if there is none.

    ``fixed``: shapes are known while tracing, as for arguments of a ``tf.function``. In Keras's own step the batch size
    is not, except in nodes that are ``rewritten``.
    """
    try:
        _GraphCheck(source, fixed, rewritten).all(statements, set(tensors))
    except GraphObstacle as why:
        return str(why)
    return None


class _GraphCheck:
    def __init__(self, source: Source, fixed: bool, rewritten: Sequence[ast.AST]) -> None:
        self.source, self.fixed = source, fixed
        self.known = {n for one in rewritten for n in syntax_tree.walk(one)}
        self.seen: set[ast.AST] = set()
        self.lists: set[str] = set()
        self.own: set[str] = set()

    def all(self, statements: Sequence[ast.stmt], tensors: set[str]) -> None:
        stored = (n for one in statements for n in syntax_tree.walk(one) if isinstance(n, ast.Name))
        self.own |= {n.id for n in stored if isinstance(n.ctx, ast.Store)}
        self.block(statements, tensors, scope_names.bound_names(list(statements)))

    def block(self, statements: Iterable[ast.stmt], tensors: set[str], new_names: set[str]) -> None:
        """Checks statements. ``del tape`` of a local name does not matter to a graph."""
        for one in statements:
            gone = one.targets if isinstance(one, ast.Delete) else []
            if not gone or not all(isinstance(n, ast.Name) and n.id in self.own for n in gone):
                self.statement(one, tensors, new_names)

    def statement(self, one: ast.stmt, tensors: set[str], new_names: set[str]) -> None:
        if isinstance(one, (ast.Global, ast.Nonlocal, ast.Try, ast.While, ast.Delete, ast.ClassDef, ast.Raise)):
            raise GraphObstacle(f"line {one.lineno}: {type(one).__name__.lower()}")
        if isinstance(one, (*FUNCTION_NODES, ast.AsyncFor, ast.AsyncWith, ast.Assert, ast.Import, ast.ImportFrom)):
            raise GraphObstacle(f"line {one.lineno}: {type(one).__name__.lower()}")
        if isinstance(one, (ast.Pass, ast.Break, ast.Continue)):
            return
        if isinstance(one, ast.If):
            self.test(one.test, tensors, new_names)
            for each in (*one.body, *one.orelse):
                self.statement(each, tensors, new_names)
        elif isinstance(one, ast.For):
            self.loop(one, tensors, new_names)
        elif isinstance(one, ast.With):
            for item in one.items:
                name = node_lookup.called_name(item.context_expr) if isinstance(item.context_expr, ast.Call) else ""
                if name not in ("GradientTape", "name_scope", "device", "stop_recording"):
                    raise GraphObstacle(f"line {one.lineno}: with {name}")
            self.block(one.body, tensors, new_names)
        else:
            self.simple(one, tensors, new_names)

    def loop(self, one: ast.For, tensors: set[str], new_names: set[str]) -> None:
        self.expression(one.iter, tensors, new_names)
        if self.tensor(one.iter, tensors) and not self.is_python_iterable(one.iter):
            raise GraphObstacle(f"line {one.lineno}: a loop over a tensor")
        if one.orelse:
            raise GraphObstacle(f"line {one.lineno}: for with else")
        if self.tensor(one.iter, tensors):
            tensors |= scope_names.bound_names(one.target)
        for each in one.body:
            self.statement(each, tensors, new_names)

    def simple(self, one: ast.stmt, tensors: set[str], new_names: set[str]) -> None:
        targets = getattr(one, "targets", None) or ([one.target] if hasattr(one, "target") else [])
        for target in targets:
            if any(isinstance(n, (ast.Attribute, ast.Subscript)) for n in syntax_tree.walk(target)):
                raise GraphObstacle(f"line {one.lineno}: something outside is assigned")
        value = getattr(one, "value", None)
        if value is None:
            return
        self.expression(value, tensors, new_names)
        names = {n for target in targets for n in scope_names.bound_names(target)}
        if self.is_python_iterable(value):
            self.lists |= names
        if self.tensor(value, tensors) or (isinstance(one, ast.AugAssign) and names & tensors):
            tensors |= names

    def test(self, node: ast.expr, tensors: set[str], new_names: set[str]) -> None:
        self.expression(node, tensors, new_names)
        if isinstance(node, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops):
            return
        if self.tensor(node, tensors):
            raise GraphObstacle(f"line {node.lineno}: a branch on a tensor's value")

    def expression(self, node: ast.expr, tensors: set[str], new_names: set[str]) -> None:
        for n in syntax_tree.walk(node):
            if isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await, ast.JoinedStr, ast.NamedExpr)):
                raise GraphObstacle(f"line {n.lineno}: {type(n).__name__.lower()}")
            if isinstance(n, (ast.IfExp, ast.BoolOp)) or (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not)):
                parts = (
                    [n.test] if isinstance(n, ast.IfExp) else [n.operand] if isinstance(n, ast.UnaryOp) else n.values
                )
                if any(self.tensor(p, tensors) for p in parts):
                    raise GraphObstacle(f"line {n.lineno}: a choice by a tensor's value")
            if (
                isinstance(n, ast.comprehension)
                and self.tensor(n.iter, tensors)
                and not self.is_python_iterable(n.iter)
            ):
                raise GraphObstacle("a comprehension over a tensor")
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Attribute) and _literal_index(n.slice) != 0:
                self.known.add(n.value)  # sizes other than the batch's are known while tracing
            if not self.fixed and n not in self.known and self.is_shape_query(n, tensors):
                raise GraphObstacle("a shape that is not known while tracing")
            if isinstance(n, ast.Call):
                self.call(n, tensors, new_names)

    def is_shape_query(self, node: ast.AST, tensors: set[str]) -> bool:
        """Whether ``node`` queries a tensor's shape or length."""
        if isinstance(node, ast.Call) and node_lookup.called_name(node) == "len" and node.args:
            return self.tensor(node.args[0], tensors)
        return isinstance(node, ast.Attribute) and node.attr == "shape" and self.tensor(node.value, tensors)

    def call(self, call: ast.Call, tensors: set[str], new_names: set[str]) -> None:
        name, whole = node_lookup.called_name(call), scope_names.resolved_name(self.source, call.func)
        arguments = [*call.args, *(k.value for k in call.keywords)]
        touched = any(self.tensor(a, tensors) for a in arguments)
        once = name in READBACK_CALLS or name in KERAS_LOOP_METHODS or whole.startswith(RUN_ONCE_PREFIXES)
        if once and not whole.startswith(("tensorflow.print", "tensorflow.math")):
            raise GraphObstacle(f"line {call.lineno}: {name}()")
        if isinstance(call.func, ast.Name) and name in NUMBER_BUILTINS and touched:
            raise GraphObstacle(f"line {call.lineno}: {name}() of a tensor")
        if whole.startswith(("numpy.", "math.", "scipy.", "cv2.", "sklearn.")) and touched:
            raise GraphObstacle(f"line {call.lineno}: {whole} of a tensor")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if (
            name in MUTATING_METHODS
            and owner is not None
            and not (isinstance(owner, ast.Name) and owner.id in new_names)
        ):
            raise GraphObstacle(f"line {call.lineno}: .{name}() of something outside")
        framework = whole.startswith(("tensorflow.", "keras."))
        if framework and any(part in f"{whole.partition('.')[2]}." for part in VARIABLE_MAKERS):
            raise GraphObstacle(f"line {call.lineno}: {name} makes variables")
        if isinstance(call.func, ast.Name) or (isinstance(call.func, ast.Attribute) and name):
            self.follow(call)

    def follow(self, call: ast.Call) -> None:
        """Checks a function of this file that is called by name."""
        plain = isinstance(call.func, ast.Name) or scope_names.dotted_name(call.func).startswith("self.")
        target = node_lookup.function_named(self.source, node_lookup.called_name(call), call) if plain else None
        if target is None or target in self.seen:
            return
        self.seen.add(target)
        why = outside_obstacle(self.source, target)
        if why:
            raise GraphObstacle(why)
        if not is_graph_function(self.source, target):
            self.all(target.body, tensor_parameters(target))

    def is_python_iterable(self, node: ast.AST) -> bool:
        """Whether an iteration over it is Python's own, as over a list of tensors."""
        match node:
            case ast.List() | ast.Tuple() | ast.ListComp():
                return True
            case ast.Attribute(attr=name):
                return name in LIST_ATTRIBUTES
            case ast.Name(id=name):
                return name in self.lists
            case ast.Call(args=args):
                called = node_lookup.called_name(node)
                if called in ("zip", "enumerate", "reversed", "list"):
                    return bool(args) and all(map(self.is_python_iterable, args))
                return called in ("gradient", "range", "get_weights", "items", "values", "keys")
            case ast.BinOp(left=left, right=right):
                return self.is_python_iterable(left) and self.is_python_iterable(right)
        return False

    def tensor(self, node: ast.AST, tensors: set[str]) -> bool:
        """Whether the expression's value depends on a tensor's value."""
        if isinstance(node, ast.Name):
            return node.id in tensors
        if isinstance(node, ast.Attribute):
            return (
                node.attr not in STATIC_ATTRIBUTES
                and node.attr not in LIST_ATTRIBUTES
                and self.tensor(node.value, tensors)
            )
        if isinstance(node, ast.Call):
            name, whole = node_lookup.called_name(node), scope_names.resolved_name(self.source, node.func)
            if name in ("len", "isinstance", "hasattr", "type", "range", "getattr"):
                return False
            if whole.startswith(("tensorflow.", "keras.ops.")) and not whole.endswith("GradientTape"):
                return True
        return any(self.tensor(child, tensors) for child in syntax_tree.child_nodes(node))


def _literal_index(node: ast.AST) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -1
    return node.value if isinstance(node, ast.Constant) else 0


def batch_size_nodes(function: ast.FunctionDef) -> list[ast.Subscript]:
    """``x.shape[0]`` of parameters in shapes given to ``tf.zeros`` and the like, where a tensor is allowed."""
    found = []
    shapes = (
        a
        for n in syntax_tree.walk(function)
        if isinstance(n, ast.Call)
        and node_lookup.called_name(n) in ("zeros", "ones", "fill", "normal", "uniform", "reshape")
        for a in (*n.args, *(k.value for k in n.keywords))
        if isinstance(a, (ast.Tuple, ast.List)) and scope_names.dotted_name(n.func).startswith("tf.")
    )
    for shape in shapes:
        for one in shape.elts:
            if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Attribute) and one.value.attr == "shape":
                plain = isinstance(one.value.value, ast.Name) and one.value.value.id in tensor_parameters(function)
                if plain and isinstance(one.slice, ast.Constant) and one.slice.value == 0:
                    found.append(one)
    return found


def tensor_parameters(function: ast.AST) -> set[str]:
    """Parameters that may hold tensors; one whose default is a constant is a flag or a size."""
    arguments = function.args if isinstance(function, FUNCTION_NODES) else None
    if arguments is None:
        return set()
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = [a.arg for a in positional[len(positional) - len(arguments.defaults) :]]
    pairs = [*zip(optional, arguments.defaults, strict=True)]
    pairs += [(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    flags = {name for name, default in pairs if isinstance(default, ast.Constant) and default.value is not None}
    return set(scope_names.parameter_names(function)) - flags - FLAG_PARAMETERS


def is_graph_function(source: Source, function: ast.AST) -> bool:
    """Whether a function is decorated with ``tf.function`` or ``jax.jit``."""
    for one in getattr(function, "decorator_list", []):
        text = scope_names.resolved_name(source, one.func if isinstance(one, ast.Call) else one)
        if text.endswith(("tensorflow.function", "def_function.function", "jax.jit")):
            return True
        if isinstance(one, ast.Call) and any(
            scope_names.resolved_name(source, a).endswith("tensorflow.function") for a in one.args
        ):
            return True
    return False


def outside_obstacle(source: Source, function: ast.AST) -> str | None:
    """What the function reads from outside that changes while the script runs; tracing would freeze it. Else None."""
    for node in syntax_tree.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            scope = call_arguments.binding_function(source, node)
            if scope is None or scope is function or _is_nested_scope(function, scope):
                continue
            if scope_names.is_rebound(source, node.id, scope):
                return f"line {node.lineno}: {node.id} changes outside"
    own = scope_names.bound_names(scope_names.scope_body(function)) | set(scope_names.parameter_names(function))
    return stateful_read(source, [function], own)


def stateful_read(source: Source, nodes: Sequence[ast.AST], own: set[str]) -> str | None:
    """Attributes and items that ``nodes`` read and that are stored elsewhere; ``own``: their local names. Else None."""
    for node in (n for one in nodes for n in syntax_tree.walk(one)):
        loaded = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in own
        if isinstance(node, ast.Name) and loaded and node.id in _filled_names(source):
            return f"line {node.lineno}: {node.id} is filled elsewhere"
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and _is_attribute_assigned(source, node.attr)
        ):
            return f"line {node.lineno}: .{node.attr} is assigned elsewhere"
    if _is_attribute_assigned(source, "trainable", everywhere=False):
        return "trainable is switched while the script runs"
    return None


def _is_nested_scope(function: ast.AST, scope: ast.AST) -> bool:
    return any(scope is n for n in syntax_tree.walk(function))


@cache_recent(4)
def _filled_names(source: Source) -> frozenset[str]:
    """Names into which items are stored in a loop or a function."""
    stored = [(n, n.value) for n in call_index.nodes_of_class(source, ast.Subscript) if isinstance(n.ctx, ast.Store)]
    calls = call_index.index_of(source).calls_of(*MUTATING_METHODS)
    owners = [*stored, *((n, n.func.value) for n in calls if isinstance(n.func, ast.Attribute))]
    return frozenset(
        scope_names.dotted_name(owner)
        for node, owner in owners
        if scope_names.enclosing_loops(source, node) or node_lookup.enclosing_function(source, node) is not None
    )


def _is_attribute_assigned(source: Source, attribute: str, everywhere: bool = True) -> bool:
    """Whether the attribute is assigned in a loop, or in a function that is no constructor."""
    if attribute in RATE_ATTRIBUTES:
        return False
    for node in call_index.nodes_matching(source, re.compile(call_index.whole_word_pattern(attribute)), ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store):
            function = node_lookup.enclosing_function(source, node)
            if scope_names.enclosing_loops(source, node) and (
                function is None or function.name not in ("__init__", "build")
            ):
                return True
            if function is not None and function.name not in ("__init__", "build") and everywhere:
                return True
    return False
