"""The lines of the script behind a measurement: the line to change, which need not be one that ran long.

A measurement names the lines that were running: the call of the step, the start of training. The cause may be
elsewhere: a flag in a helper, a number among the settings, the layer that has the table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text.source_file import Source

MAX_DEPTH = 3  # functions and names followed to a value


def literal_line(source: Source, node: ast.expr) -> Iterator[int]:
    """The line of the literal behind a name or a settings entry; none for a literal in place."""
    found = None if isinstance(node, ast.Constant) else setting_origins.literal_origin(source, node)
    if found is not None:
        yield found.node.lineno


def argument_origins(source: Source, call: ast.Call) -> Iterator[int]:
    """Where a call's arguments come from: a literal elsewhere, or calls of the function around it."""
    arguments = [*call.args, *(k.value for k in call.keywords)]
    for one in arguments:
        yield from literal_line(source, one)
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return
    read = {name for one in arguments for name in scope_names.read_names(one)}
    parameters = set(scope_names.parameter_names(function)) - {"self", "cls"}
    for name in [*read]:
        read |= _names_read_for(function, name, MAX_DEPTH)
    if not read & parameters:
        return
    for caller in queries.calls_running(source, function):
        arguments = [*caller.args, *(k.value for k in caller.keywords)]
        found = [line for one in arguments for line in literal_line(source, one)]
        yield from found or [caller.lineno]


def _names_read_for(function: ast.AST, name: str, depth: int) -> set[str]:
    """Names that a function reads to compute the name."""
    found: set[str] = set()
    for one in scope_names.nodes_in_scope(scope_names.scope_body(function)) if depth else ():
        if isinstance(one, ast.Assign) and name in scope_names.bound_names(one.targets):
            found |= scope_names.read_names(one.value)
    return found.union(*(_names_read_for(function, other, depth - 1) for other in found - {name}))


def argument_part_lines(
    source: Source, line: int, function: str, argument: tuple[str, int], inside: str
) -> Iterator[int]:
    """The lines that give a part of an argument of ``function`` at ``line`` its value.

    ``argument``: its name and position. ``inside``: the part as signatures write it, ``['beta']``, ``[0]``, ``.rate``.
    """
    call = node_lookup.single_call(source, line, function)
    value = node_lookup.argument_value(call, argument[0], argument[1]) if call is not None else None
    if value is None or any(isinstance(a, ast.Starred) for a in getattr(call, "args", ())):
        return
    yield from _part_lines(source, value, inside, line, MAX_DEPTH)


def _part_lines(source: Source, node: ast.expr, inside: str, line: int, depth: int) -> Iterator[int]:
    """Lines that store ``inside`` into the value of ``node``, other than the line of the call."""
    if not depth:
        return
    if isinstance(node, ast.Name):
        stored = [n for n in _stores_ending(source, inside) if ast.unparse(n) == f"{node.id}{inside}"]
        near = [
            n
            for n in stored
            if node_lookup.enclosing_function(source, n) is node_lookup.enclosing_function(source, node)
        ]
        if near:
            yield from (n.lineno for n in near if n.lineno != line)
            return
        value = name_bindings.single_assignment(source, node)
        if value is not None:
            yield from _part_lines(source, value, inside, line, depth - 1)
        return
    if isinstance(node, ast.Call):
        function = queries.called_function(source, node)
        if function is not None:
            for back in scope_names.returned_values(function):
                yield from _part_lines(source, back, inside, line, depth - 1)
            return
    if isinstance(node, (ast.Call, ast.Dict, ast.Tuple, ast.List)) and node.lineno != line:
        yield node.lineno


def _stores_ending(source: Source, inside: str) -> list[ast.expr]:
    """Subscripts or attributes that are stored to, by the form of ``inside``."""
    kind: type[ast.expr] = ast.Subscript if inside.endswith("]") else ast.Attribute
    every = call_index.nodes_of_kind(source, kind)
    return [n for n in every if isinstance(n, kind) and isinstance(getattr(n, "ctx", None), ast.Store)]


def receiver_line(source: Source, line: int, method: str) -> Iterator[int]:
    """The line that creates the receiver of ``method`` at ``line``, in the same iteration of the same loop."""
    call = node_lookup.single_call(source, line, method)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    value = name_bindings.single_assignment(source, owner) if isinstance(owner, ast.Name) else None
    if call is None or not isinstance(value, ast.Call) or value.lineno == line:
        return
    same = node_lookup.enclosing_function(source, value) is node_lookup.enclosing_function(source, call)
    if same and scope_names.enclosing_loops(source, value) == scope_names.enclosing_loops(source, call):
        yield value.lineno


def loop_line(source: Source, line: int) -> Iterator[int]:
    """The head of the innermost loop around a line, unless it has few iterations."""
    every = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
    inner = max((n for n in every if n.lineno < line <= (n.end_lineno or 0)), key=lambda n: n.lineno, default=None)
    if inner is not None and not queries.has_few_turns(source, inner):
        yield inner.lineno


def batch_size_line(source: Source, line: int) -> Iterator[int]:
    """Where the batch size of ``fit`` or ``batch_size_line`` at a line is written, if it is elsewhere."""
    for call in node_lookup.calls_at_line(source, line, "fit", "batch"):
        size = setting_origins.call_argument(source, call, "batch_size")
        if size is None and node_lookup.called_name(call) == "batch" and call.args:
            size = setting_origins.written_value(source, call.args[0])
        if isinstance(size, ast.Constant) and not call.lineno <= size.lineno <= (call.end_lineno or call.lineno):
            yield size.lineno


def function_defined_at(source: Source, line: int) -> ast.FunctionDef | None:
    """The function whose definition, decorators included, begins on a line."""
    for one in call_index.nodes_of_kind(source, ast.FunctionDef):
        if isinstance(one, ast.FunctionDef) and line in (one.lineno, *(d.lineno for d in one.decorator_list)):
            return one
    return None
