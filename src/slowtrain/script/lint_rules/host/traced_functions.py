"""The tf.functions of a file, and calls that trace them again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import Source

INTEGER_DRAWS = frozenset("integers randint randrange random_integers".split())


@dataclass(frozen=True)
class TracedFunction:
    """A ``tf.function`` of the file, and the ``names`` by which it is called."""

    function: ast.FunctionDef
    names: tuple[str, ...]


@dataclass(frozen=True)
class ChangingArgument:
    """An argument that varies. ``number`` is its kind: "float", "int", "number" (either), or "" for a shape.

    "held": a dictionary, tuple or list with such a number. "text": a string with a number in it, or a container of one.
    """

    graph: TracedFunction
    call: ast.Call
    parameter: str
    given: ast.expr
    number: str


def may_have_graphs(source: Source) -> bool:
    """Whether the text may contain a tf.function."""
    named = ".function" in source.text or "import function" in source.text
    return named and name_bindings.may_name(source, "tensorflow.function")


def traced_functions(source: Source) -> Iterator[TracedFunction]:
    if not may_have_graphs(source):
        return
    for node in call_index.nodes_of_kind(source, ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        for one in node.decorator_list:
            plain = one.func if isinstance(one, ast.Call) else one
            if name_bindings.qualified_name(source, plain) == "tensorflow.function":
                yield TracedFunction(node, (node.name,))
    for call in call_index.index_of(source).called("function"):
        if name_bindings.qualified_name(source, call.func) != "tensorflow.function" or not call.args:
            continue
        given, holder = call.args[0], node_lookup.parents_of(source).get(call)
        made = node_lookup.function_named(source, given.id, call) if isinstance(given, ast.Name) else None
        target = holder.targets[0] if isinstance(holder, ast.Assign) else None
        if made is not None and isinstance(target, ast.Name):
            yield TracedFunction(made, (target.id,))
        elif (
            isinstance(given, ast.Attribute)
            and class_members.is_self_attribute(given)
            and isinstance(target, ast.Attribute)
        ):
            own = node_lookup.function_named(source, given.attr)  # self.update = tf.function(self._update)
            if own is not None and class_members.is_self_attribute(target):
                yield TracedFunction(own, (target.attr,))


def _assigned_in_loop(given: ast.expr, loop: ast.AST) -> ast.expr | None:
    """Return the value that the loop assigns to a name, or the expression itself."""
    if not isinstance(given, ast.Name):
        return given
    found = [
        n.value for n in scope_names.nodes_in_scope(list(getattr(loop, "body", [])))
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == given.id for t in n.targets)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def calls_on_new_objects(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find calls of a ``tf.function`` method on an object that the loop creates, with the name of the class."""
    above = node_lookup.parents_of(source)
    for graph in traced_functions(source):
        holder = above.get(graph.function)
        if not isinstance(holder, ast.ClassDef) or graph.function.name in ("call", "__call__"):
            continue
        for call in call_index.index_of(source).called(graph.function.name):
            loops = scope_names.enclosing_loops(source, call)
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (
                not loops
                or owner is None
                or scope_names.is_literal_loop(loops[0])
                or queries.has_few_turns(source, loops[0])
            ):
                continue
            made = _assigned_in_loop(owner, loops[0])
            if isinstance(made, ast.Call) and node_lookup.called_name(made) == holder.name:
                yield call, holder.name
