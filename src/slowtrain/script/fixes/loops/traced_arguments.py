"""Edits that avoid retracing: they pass numbers as tensors and relax shapes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_arguments, call_index, node_lookup, scope_names
from slowtrain.script.navigation.node_lookup import Statements
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

OTHER_DTYPES = re.compile(r"float64|set_floatx|float16|complex|enable_numpy_behavior")
LIST_FUNCTIONS = frozenset(
    "stack constant convert_to_tensor gather cast reshape reduce_sum reduce_mean reduce_max".split()
)
# Their arguments are shapes, counts and axes, which have to be Python numbers.
PYTHON_NUMBER_FUNCTIONS = frozenset(
    "zeros ones fill reshape range one_hot transpose split tile pad repeat concat expand_dims squeeze slice top_k "
    "uniform normal truncated_normal dropout map_fn while_loop cond print function constant device roll eye".split()
)
AxisSizes = Mapping[str, "tuple[int | None, ...] | None"]
ARITHMETIC_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def graph_function(source: Source, line: int) -> ast.FunctionDef | None:
    """Return the function at ``line``, including its decorators."""
    found = [
        n
        for n in call_index.nodes_of_class(source, ast.FunctionDef)
        if moved_statements.first_statement_line(n) <= line <= _last_line(n)
    ]
    return max(found, key=lambda n: n.lineno) if found else None


def _last_line(function: ast.FunctionDef) -> int:
    return function.end_lineno or function.lineno


def pass_tensors(source: Source, line: int, parameters: dict[str, str]) -> list[Edit]:
    """Pass ``parameters`` (name: "float" or "int") as tensors in every call of the function at ``line``.

    Empty if the function needs one of them as a Python number, or if a call is not visible.
    """
    function = graph_function(source, line)
    if function is None or not parameters or OTHER_DTYPES.search(source.text):
        return []
    calls = calls_outside_graphs(source, function)
    if not calls:
        return []
    name, importing = edits.ensure_import(source, "tensorflow", "tf")
    found: list[Edit] = []
    for parameter, kind in parameters.items():
        dtype = _tensor_dtype(source, function, parameter, kind)
        if dtype is None or (parameter in ("training", "self")):
            return []
        for call in calls:
            argument = call_arguments.argument_in(function, call, parameter)
            if argument is None or any(isinstance(a, ast.Starred) for a in call.args):
                return []
            if queries.kind_at(source, argument) != queries.TENSOR:
                found += [edits.insert_text(source, edits.node_start(argument), f"{name}.constant(")]
                found += [edits.insert_text(source, edits.node_end(argument), f", {name}.{dtype})" if dtype else ")")]
    return [*importing, *found] if found else []


def pass_tensor_entries(source: Source, line: int, parameter: str, entries: dict[str, str]) -> list[Edit]:
    """Pass ``entries`` (key: "float" or "int") of a mapping as tensors in every call of the function at ``line``.

    Empty if the function does more with the mapping than read entries by their keys.
    """
    function = graph_function(source, line)
    calls = calls_outside_graphs(source, function) if function is not None else []
    if (
        function is None
        or not calls
        or parameter in scope_names.bound_names(function.body)
        or OTHER_DTYPES.search(source.text)
    ):
        return []
    above = node_lookup.parents_of(source)
    ways: dict[str, set[str]] = {}
    for node in (n for one in function.body for n in syntax_tree.walk(one)):
        if not isinstance(node, ast.Name) or node.id != parameter:
            continue
        read = above.get(node)
        key = read.slice.value if isinstance(read, ast.Subscript) and isinstance(read.slice, ast.Constant) else None
        if not isinstance(read, ast.Subscript) or not isinstance(key, str) or not isinstance(read.ctx, ast.Load):
            return []
        used = parameter_use(source, read, above) if key in entries else ""
        if used is None:
            return []
        ways.setdefault(key, set()).add(used)
    if not set(entries) <= set(ways):
        return []  # the changed value is unknown
    name, importing = edits.ensure_import(source, "tensorflow", "tf")
    found: list[Edit] = []
    for call in calls:
        argument = call_arguments.argument_in(function, call, parameter)
        text = scope_names.dotted_name(argument) if argument is not None else ""
        if argument is None or not text or any(isinstance(a, ast.Starred) for a in call.args):
            return []
        types = {key: _number_dtype(ways[key], kind) for key, kind in entries.items()}
        ends = {key: f", {name}.{dtype})" if dtype else ")" for key, dtype in types.items()}
        items = ", ".join(f'"{key}": {name}.constant({text}["{key}"]{end}' for key, end in ends.items())
        found.append(edits.replace_node(source, argument, f"{{**{text}, {items}}}"))
    return [*importing, *found]


def calls_outside_graphs(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls of the function; empty if one of them is inside a graph, or for ``fast = tf.function(f)``."""
    found = call_index.index_of(source).calls_of(function.name)
    graph_calls = [c for c in call_index.index_of(source).calls_of("function") if c.args and _is_graph_call(source, c)]
    assigned = any(scope_names.dotted_name(c.args[0]).rpartition(".")[2] == function.name for c in graph_calls)
    return [] if assigned or any(_is_in_graph(source, c) for c in found) else found


def _is_graph_call(source: Source, call: ast.Call) -> bool:
    return scope_names.resolved_name(source, call.func) == "tensorflow.function"


def _is_in_graph(source: Source, call: ast.Call) -> bool:
    function = node_lookup.enclosing_function(source, call)
    return function is not None and graph_obstacles.is_graph_function(source, function)


def _tensor_dtype(source: Source, function: ast.FunctionDef, parameter: str, kind: str) -> str | None:
    """Return the dtype for the tensor: "" for the default, None if a tensor cannot replace the number."""
    if parameter not in scope_names.parameter_names(function) or parameter in scope_names.bound_names(function.body):
        return None
    found = _parameter_uses(source, function, parameter)
    if found is None:
        return None
    return _number_dtype(found, kind) if found else ""


def _number_dtype(ways: set[str], kind: str) -> str:
    """Return the dtype that a "float" or "int" number has in its operations; "" for the default."""
    return "" if ways == {"cast"} and kind != "float" else "float32"


def _parameter_uses(source: Source, function: ast.FunctionDef, parameter: str) -> set[str] | None:
    """Return how a function uses a parameter; None if unknown."""
    above = node_lookup.parents_of(source)
    names = [n for one in function.body for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and n.id == parameter]
    found = {parameter_use(source, node, above) for node in names}
    return None if None in found else {one for one in found if one is not None}


def parameter_use(source: Source, node: ast.expr, above: Statements) -> str | None:
    """Return how a parameter is used: "cast" (any dtype works), "number" (in arithmetic), None if it must be a Python
    number.
    """
    parent = above.get(node)
    if isinstance(above.get(parent) if parent else None, (ast.If, ast.While)) and isinstance(parent, ast.Compare):
        return None
    if isinstance(parent, ast.BinOp):
        return (
            "number" if isinstance(parent.op, ARITHMETIC_OPERATORS) and _ends_in_tensor(source, parent, above) else None
        )
    if isinstance(parent, ast.Call) and node in parent.args:
        name, whole = node_lookup.called_name(parent), scope_names.resolved_name(source, parent.func)
        if whole == "tensorflow.cast":
            return "cast"
        if whole.startswith("tensorflow.") and (name in LIST_FUNCTIONS or name not in PYTHON_NUMBER_FUNCTIONS):
            return "cast" if name in ("stack", "convert_to_tensor") else "number"
        if name in ("assign", "assign_add", "assign_sub"):
            return "number"
    return None


def _ends_in_tensor(source: Source, node: ast.AST, above: Statements) -> bool:
    """Whether the arithmetic ends in an op or assignment, and not in a shape, index or Python number."""
    parent = above.get(node)
    while isinstance(parent, (ast.BinOp, ast.UnaryOp)):
        node, parent = parent, above.get(parent)
    if isinstance(parent, (ast.Assign, ast.AugAssign, ast.Return, ast.AnnAssign)):
        return True
    if isinstance(parent, ast.Call) and node in parent.args:
        whole = scope_names.resolved_name(source, parent.func)
        updates = node_lookup.called_name(parent) in ("assign", "assign_add", "assign_sub", "append")
        return updates or (
            whole.startswith("tensorflow.") and node_lookup.called_name(parent) not in PYTHON_NUMBER_FUNCTIONS
        )
    return False


def reduce_retracing(source: Source, line: int, sizes: AxisSizes | None = None) -> list[Edit]:
    """Set ``reduce_retracing=True`` for the ``tf.function`` at ``line``, if neither it nor a model reads a shape.

    ``sizes``: sizes of the axes of its parameters, None for those that vary. It may read the other sizes.
    """
    function = graph_function(source, line)
    if function is None or _reads_varying_shape(source, function, sizes or {}):
        return []
    if any(_reads_input_length(source, m) for m in _model_methods(source)):
        return []
    plain = [d for d in function.decorator_list if scope_names.resolved_name(source, d) == "tensorflow.function"]
    return [edits.insert_text(source, edits.node_end(d), "(reduce_retracing=True)") for d in plain]


def _model_methods(source: Source) -> list[ast.FunctionDef]:
    """Return the ``call`` methods of models and layers of the file."""
    found = call_index.nodes_of_class(source, ast.FunctionDef)
    return [n for n in found if n.name in ("call", "__call__")]


def _reads_input_length(source: Source, method: ast.FunctionDef) -> bool:
    """Whether a method reads the length of its input in Python. The last axis does not vary."""
    above = node_lookup.parents_of(source)
    for node in syntax_tree.walk(method):
        if isinstance(node, ast.Call) and node_lookup.called_name(node) == "len":
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "get_shape"):
            holder = above.get(node)
            last = isinstance(holder, ast.Subscript) and ast.unparse(holder.slice) == "-1"
            if not last and not scope_names.resolved_name(source, node).startswith(("tensorflow.", "keras.")):
                return True
    return False


def _reads_varying_shape(source: Source, function: ast.FunctionDef, sizes: AxisSizes) -> bool:
    """Whether the function reads a varying shape or a length in Python, or holds another function."""
    above, own = node_lookup.parents_of(source), scope_names.bound_names(function.body)
    for node in syntax_tree.walk(function):
        match node:
            case ast.Attribute(attr="shape" | "get_shape", value=value):
                known = sizes.get(value.id) if isinstance(value, ast.Name) and value.id not in own else None
                stays = known is not None and _size_of_axis(known, above.get(node)) is not None
                if not stays and scope_names.resolved_name(source, node) != "tensorflow.shape":
                    return True
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node is not function:
                return True
    return False


def _size_of_axis(sizes: tuple[int | None, ...], item: ast.AST | None) -> int | None:
    """Return the size that ``x.shape[-1]`` reads; None if it varies or is not a single axis."""
    text = ast.unparse(item.slice) if isinstance(item, ast.Subscript) else ""
    axis = int(text) if re.fullmatch(r"-?\d+", text) else None
    return sizes[axis] if axis is not None and -len(sizes) <= axis < len(sizes) else None
