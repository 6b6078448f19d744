"""Code which a training step reaches, and loops between two steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, step_input
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

ElementLoop = ast.For | ast.Call
MIN_TURNS_PER_STEP = 1000  # in each step. An iteration takes 0.1 to 1 µs or more, a short step takes 1 ms.


def is_in_step(source: Source, node: ast.AST) -> bool:
    """Whether a training step runs ``node``, according to the calls in the file."""
    function = node_lookup.enclosing_function(source, node)
    if function is None or not call_index.takes_training_steps(source):
        return False
    tapes = call_index.index_of(source).calls_of("GradientTape")
    todo = [f for tape in tapes if (f := node_lookup.enclosing_function(source, tape)) is not None]
    for kind in call_index.nodes_of_class(source, ast.ClassDef):
        method = class_members.own_method(kind, "call")
        if method is not None and call_index.index_of(source).calls_of(kind.name):
            todo.append(method)
    seen: set[ast.AST] = set()
    while todo:
        one = todo.pop()
        if one is function:
            return True
        if one in seen:
            continue
        seen.add(one)
        calls = syntax_tree.nodes_inside(one.body, ast.Call)
        todo += [f for call in calls if (f := queries.called_function(source, call)) is not None]
        todo += syntax_tree.nodes_inside(one.body, *FUNCTION_NODES)
    return False


def only_stores_results(source: Source, loop: ast.For) -> bool:
    """Whether the loop stores or appends results, and neither trains nor calls a framework."""
    calls = syntax_tree.nodes_inside(loop.body, ast.Call)
    stores = any(isinstance(n.ctx, ast.Store) for n in syntax_tree.nodes_inside(loop.body, ast.Subscript))
    if not stores and not any(node_lookup.called_name(call) == "append" for call in calls):
        return False
    return not any(name_bindings.qualified_name(source, c.func).startswith(("tensorflow.", "keras.")) for c in calls)


def loops_between_steps(source: Source) -> Iterator[tuple[ast.For, int]]:
    """Find the outermost such loops, with their iterations per step, including inner loops.

    Loops that make the input of the step belong to the cause input/python-input.
    """
    most: dict[ast.For, int] = {}
    for event in interpreter.file_events(source):
        if event.begun is None:
            continue
        inside = _loops_in_iteration(source, event)
        outer = inside[0].node if inside else None
        if not isinstance(outer, ast.For) or not only_stores_results(source, outer):
            continue
        turns = queries.least_turns(inside)
        most[outer] = max(most.get(outer, 0), turns)
    long = {loop: turns for loop, turns in most.items() if turns >= MIN_TURNS_PER_STEP}
    making = _input_lines(source) if long else ()
    yield from ((loop, turns) for loop, turns in long.items() if loop.lineno not in making)


def python_loops_in_graphs(source: Source) -> Iterator[ast.expr]:
    """The first loop of each ``py_function`` that a training step calls with its values."""
    seen: set[ast.AST] = set()
    for event in interpreter.file_events(source):
        called = python_call_in_step(source, event) if event.begun is not None else None
        if called is not None and called not in seen:
            seen.add(called)
            yield event.node


def python_call_in_step(source: Source, event: Event) -> ast.Call | None:
    """The ``py_function`` around ``event`` that a training step calls with its values."""
    if event.producer != "py_function" or not step_loops.is_in_step_loop(source, event):
        return None
    called = [loop.node for loop in event.loops if isinstance(loop.node, ast.Call)][-1]
    return called if takes_values(called) else None


def takes_values(python_call: ast.Call) -> bool:
    """Whether a call of ``py_function`` gets tensors. In a step, one without tensors makes the input."""
    given = node_lookup.argument_value(python_call, "inp", 1)
    return not isinstance(given, (ast.List, ast.Tuple)) or bool(given.elts)


def _loops_in_iteration(source: Source, event: Event) -> list[Loop]:
    """Return the loops inside one iteration of the training loop, the outermost first. The last one begins here."""
    turn = step_loops.step_loop_of(source, event)
    if turn is None or event.begun is turn:
        return []
    inside = list(event.loops[event.loops.index(turn) + 1 :])
    return [] if any(one.number in event.rare for one in inside[:1]) else inside


def _input_lines(source: Source) -> set[int]:
    """Return the lines that make the input of a step."""
    found: set[int] = set()
    for step in step_loops.step_events(source):
        files = (step.source, *step.files)
        for call in (n for n, file in zip((step.node, *step.path), files, strict=True) if file is source):
            fed = step_input.input_lines(source, call.lineno)
            found |= set(fed.lines) if fed is not None else set()
    return found
