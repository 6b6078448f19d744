"""Code that makes training steps run op by op: ``run_eagerly``, and a ``train_step`` called outside ``fit``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

_OPTION_PATTERN = re.compile("run_eagerly")
UPDATE_METHODS = frozenset({".apply_gradients", ".apply", ".minimize", ".assign", ".assign_sub", ".assign_add"})


def is_true(source: Source, given: ast.expr | None) -> bool:
    return given is not None and queries.constant_at(source, given) is True


def true_option_literals(source: Source) -> Iterator[ast.expr]:
    """Values of ``run_eagerly`` that are True and reach ``compile(**options)`` in a mapping.

    A value that a condition sets is left out, because it may be there to find errors.
    """
    if "run_eagerly" not in source.words:
        return
    seen: set[ast.expr] = set()
    for event in interpreter.file_events(source):
        given = event.given.keywords.get("run_eagerly")
        if given is None or given.known is not True or event.name not in (".compile", "compile"):
            continue
        call = event.node
        if not isinstance(call, ast.Call) or all(k.arg for k in call.keywords) or is_under_condition(source, call):
            continue
        if node_lookup.argument_value(call, "run_eagerly") is not None:
            continue
        places = [one for one in _option_values(source) if interpreter.value_at(source, one).known is True]
        own = interpreter.producing_expression(source, given)
        place = own if own is not None and places else places[0] if len(places) == 1 else None
        if place is not None and place not in seen and not any(is_under_condition(source, one) for one in places):
            seen.add(place)
            yield place


def _option_values(source: Source) -> Iterator[ast.expr]:
    """The values of ``{"run_eagerly": x}``, ``dict(run_eagerly=x)`` and ``kw["run_eagerly"] = x``."""
    for node in call_index.nodes_matching(source, _OPTION_PATTERN, ast.Dict):
        assert isinstance(node, ast.Dict)
        pairs = zip(node.keys, node.values, strict=True)
        yield from (one for key, one in pairs if key is not None and _is_option_key(key))
    for call in call_index.index_of(source).called("dict", "update"):
        yield from (k.value for k in call.keywords if k.arg == "run_eagerly")
    for node in call_index.nodes_matching(source, _OPTION_PATTERN, ast.Subscript):
        above = node_lookup.parents_of(source).get(node)
        if isinstance(node, ast.Subscript) and _is_option_key(node.slice) and isinstance(above, ast.Assign):
            yield above.value


def _is_option_key(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value == "run_eagerly"


def is_under_condition(source: Source, call: ast.expr) -> bool:
    """Whether it is under a condition such as ``if debug:``."""
    above = node_lookup.enclosing_node(source, call, ast.If)
    while isinstance(above, ast.If):
        names = {n.id for n in syntax_tree.walk(above.test) if isinstance(n, ast.Name)}
        if not isinstance(above.test, ast.Constant) and names != {"__name__"}:
            return True
        above = node_lookup.enclosing_node(source, above, ast.If)
    return False


def step_name_range(source: Source, tape: ast.With) -> tuple[tuple[int, int], tuple[int, int]]:
    """The range of the step function's name, or of the tape if the step is not a function of its own."""
    function = node_lookup.enclosing_function(source, tape)
    if function is None or scope_names.enclosing_loops(source, tape):
        item = tape.items[0].context_expr
        return edits.node_start(item), edits.node_end(item)
    line, column = edits.node_start(function)
    word = "async def " if isinstance(function, ast.AsyncFunctionDef) else "def "
    return (line, column), (line, column + len(f"{word}{function.name}".encode()))


def uncompiled_train_steps(source: Source) -> Iterator[tuple[ast.Attribute, ast.Call]]:
    """Each ``model.train_step`` of a Keras model of this file that a loop calls, and its tape.

    Only Keras' own loops compile it.
    """
    for tape in call_index.index_of(source).called("GradientTape"):
        step = node_lookup.enclosing_function(source, tape)
        kind = node_lookup.parents_of(source).get(step) if step is not None else None
        if step is None or step.name != "train_step" or not isinstance(kind, ast.ClassDef) or step.decorator_list:
            continue
        if not kind.bases:
            continue  # a method of a trainer is a step like any other
        methods = [
            n
            for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == step.name
        ]
        calls = [_is_only_called_in_loop(source, n) for n in methods]
        if methods and all(calls) and not any(isinstance(n.value, ast.Call) for n in methods):
            yield methods[0], tape


def _is_only_called_in_loop(source: Source, method: ast.Attribute) -> bool:
    """Whether the method is only used by calling it in a loop that is not in a graph."""
    above = node_lookup.parents_of(source)
    holder = above.get(method)
    calls: list[ast.Call] = [holder] if isinstance(holder, ast.Call) and holder.func is method else []
    if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
        alias = holder.targets[0].id
        uses = [
            n for n in name_bindings.reads_of(source, alias) if name_bindings.single_assignment(source, n) is method
        ]
        calls = [c for n in uses if isinstance(c := above.get(n), ast.Call) and c.func is n]
        if len(calls) != len(uses):
            return False
    functions = [node_lookup.enclosing_function(source, c) for c in calls]
    plain = not any(f is not None and (f.decorator_list or _is_passed_by_name(source, f.name)) for f in functions)
    return plain and bool(calls) and all(queries.repeating_loop(source, c, 2) is not None for c in calls)


def _is_passed_by_name(source: Source, name: str) -> bool:
    """Whether the function is passed by its name: ``tf.function(step)``, ``strategy.run(step)``."""
    for call in call_index.index_of(source).called("function"):  # tf.function(getattr(...)) may be any function
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


def eager_tapes(source: Source) -> Iterator[ast.With]:
    """Find gradient tapes of training steps that a loop runs eagerly in each iteration."""
    every = file_events(source) if "GradientTape" in source.text else ()
    updated = {one for e in every if e.name in UPDATE_METHODS and not e.graph for one in e.loops}
    for event in every:
        if event.name != "tensorflow.GradientTape" or event.graph or event.producer:
            continue
        tape = node_lookup.enclosing_statement(source, event.node)
        way = [*zip(event.path, event.files, strict=True), (tape, source)]
        if any(node is not None and node_lookup.is_taped(file, node) for node, file in way):
            continue  # a gradient inside a gradient, of a residual: no step
        if isinstance(tape, ast.With) and any(
            one in updated for one in event.regular_loops(graph_code.MIN_REPEATED_TURNS)[-1:]
        ):
            yield tape
