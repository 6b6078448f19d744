"""Training steps that run op by op: a gradient taken and applied in a loop, outside any graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

_OPTION = re.compile("run_eagerly")


def on(source: Source, given: ast.expr | None) -> bool:
    return given is not None and queries.constant_at(source, given) is True


def handed(source: Source) -> Iterator[ast.expr]:
    """Where ``run_eagerly`` is said to be True for a ``compile()`` that gets it in a mapping.

    ``compile(**options)``, whatever makes the options. Not where a condition puts it there, to find errors.
    """
    if "run_eagerly" not in source.words:
        return
    seen: set[ast.expr] = set()
    for event in interpreter.file_events(source):
        given = event.given.keywords.get("run_eagerly")
        if given is None or given.known is not True or event.name not in (".compile", "compile"):
            continue
        call = event.node
        if not isinstance(call, ast.Call) or all(k.arg for k in call.keywords) or asked_for(source, call):
            continue
        if node_lookup.argument_value(call, "run_eagerly") is not None:
            continue
        places = [one for one in _said(source) if interpreter.value_at(source, one).known is True]
        own = interpreter.producing_expression(source, given)
        place = own if own is not None and places else places[0] if len(places) == 1 else None
        if place is not None and place not in seen and not any(asked_for(source, one) for one in places):
            seen.add(place)
            yield place


def _said(source: Source) -> Iterator[ast.expr]:
    """What stands for ``run_eagerly`` in mappings: ``{"run_eagerly": x}``, ``dict(run_eagerly=x)``, ``kw["…"] = x``."""
    for node in call_index.nodes_matching(source, _OPTION, ast.Dict):
        assert isinstance(node, ast.Dict)
        pairs = zip(node.keys, node.values, strict=True)
        yield from (one for key, one in pairs if key is not None and _option(key))
    for call in call_index.index_of(source).called("dict", "update"):
        yield from (k.value for k in call.keywords if k.arg == "run_eagerly")
    for node in call_index.nodes_matching(source, _OPTION, ast.Subscript):
        above = node_lookup.parents_of(source).get(node)
        if isinstance(node, ast.Subscript) and _option(node.slice) and isinstance(above, ast.Assign):
            yield above.value


def _option(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value == "run_eagerly"


def asked_for(source: Source, call: ast.expr) -> bool:
    """Whether it stands under a condition, as a switch for finding errors does: ``if debug:``."""
    above = node_lookup.enclosing_node(source, call, ast.If)
    while isinstance(above, ast.If):
        names = {n.id for n in syntax_tree.walk(above.test) if isinstance(n, ast.Name)}
        if not isinstance(above.test, ast.Constant) and names != {"__name__"}:
            return True
        above = node_lookup.enclosing_node(source, above, ast.If)
    return False


def named(source: Source, tape: ast.With) -> tuple[tuple[int, int], tuple[int, int]]:
    """From where to where the step's function is named, or its tape made where it is no function of its own."""
    function = node_lookup.enclosing_function(source, tape)
    if function is None or scope_names.enclosing_loops(source, tape):
        item = tape.items[0].context_expr
        return edits.node_start(item), edits.node_end(item)
    line, column = edits.node_start(function)
    word = "async def " if isinstance(function, ast.AsyncFunctionDef) else "def "
    return (line, column), (line, column + len(f"{word}{function.name}".encode()))


def by_hand(source: Source) -> Iterator[tuple[ast.Attribute, ast.Call]]:
    """``model.train_step`` of a class of this file where a loop calls it, and its tape.

    Of a model of Keras's: only its own loops make a graph of it.
    """
    for tape in call_index.index_of(source).called("GradientTape"):
        step = node_lookup.enclosing_function(source, tape)
        kind = node_lookup.parents_of(source).get(step) if step is not None else None
        if step is None or step.name != "train_step" or not isinstance(kind, ast.ClassDef) or step.decorator_list:
            continue
        if not kind.bases:
            continue  # a trainer's own method, as any other step
        named = [
            n
            for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == step.name
        ]
        calls = [_looped_call(source, n) for n in named]
        if named and all(calls) and not any(isinstance(n.value, ast.Call) for n in named):
            yield named[0], tape


def _looped_call(source: Source, named: ast.Attribute) -> bool:
    """Whether all that is done with the method is to call it in a loop that is no graph."""
    above = node_lookup.parents_of(source)
    holder = above.get(named)
    calls: list[ast.Call] = [holder] if isinstance(holder, ast.Call) and holder.func is named else []
    if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
        alias = holder.targets[0].id
        uses = [n for n in name_bindings.reads_of(source, alias) if name_bindings.single_assignment(source, n) is named]
        calls = [c for n in uses if isinstance(c := above.get(n), ast.Call) and c.func is n]
        if len(calls) != len(uses):
            return False
    functions = [node_lookup.enclosing_function(source, c) for c in calls]
    plain = not any(f is not None and (f.decorator_list or _wrapped(source, f.name)) for f in functions)
    return plain and bool(calls) and all(queries.repeating_loop(source, c, 2) is not None for c in calls)


def _wrapped(source: Source, name: str) -> bool:
    """Whether the function is given to something by its name: ``tf.function(step)``, ``strategy.run(step)``."""
    for call in call_index.index_of(source).called("function"):  # of whatever ``getattr`` finds
        if call.args and isinstance(call.args[0], ast.Call) and node_lookup.called_name(call.args[0]) == "getattr":
            return True
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if (node.id if isinstance(node, ast.Name) else node.attr) == name:
            above = node_lookup.parents_of(source).get(node)
            if not (isinstance(above, ast.Call) and above.func is node):
                return True
    return False
