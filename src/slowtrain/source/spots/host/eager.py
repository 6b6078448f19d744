"""Training steps that run op by op: a gradient taken and applied in a loop, outside any graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import FUNCTIONS, Source, edits, trees
from slowtrain.source.cures.host.functions import APPLIES
from slowtrain.source.reading import finding, graphable, index, scopes, sizes, values, visible

UPDATES = APPLIES - {"assign", "assign_add", "apply"}  # of an optimizer: what is assigned may be anything

OF_PYTHON = frozenset("numpy float print tqdm trange Progbar time perf_counter monotonic item input open write".split())


def on(source: Source, given: ast.expr | None) -> bool:
    return sizes.value(source, given) is True


def asked_for(source: Source, call: ast.Call) -> bool:
    """Whether it stands under a condition, as a switch for finding errors does: ``if debug:``."""
    above = finding.around(source, call, ast.If)
    while isinstance(above, ast.If):
        names = {n.id for n in trees.walk(above.test) if isinstance(n, ast.Name)}
        if not isinstance(above.test, ast.Constant) and names != {"__name__"}:
            return True
        above = finding.around(source, above, ast.If)
    return False


def steps(source: Source) -> Iterator[ast.With]:
    """The tapes of steps that are taken in a loop of this file, and are in no graph."""
    for call in index.of(source).called("GradientTape"):
        tape = finding.around(source, call, ast.With)
        if not isinstance(tape, ast.With) or not any(i.context_expr is call for i in tape.items):
            continue
        function = finding.function(source, tape)
        whole: ast.AST = function if function is not None else source.tree
        if scopes.loops(source, tape):
            whole = scopes.loops(source, tape)[-1]
        elif function is None or not _looped(source, function):
            continue
        if _updates(source, whole) and not _in_graph(source, tape) and _here(source, whole):
            yield tape


def named(source: Source, tape: ast.With) -> tuple[tuple[int, int], tuple[int, int]]:
    """From where to where the step's function is named, or its tape made where it is no function of its own."""
    function = finding.function(source, tape)
    if function is None or scopes.loops(source, tape):
        item = tape.items[0].context_expr
        return edits.start(item), edits.end(item)
    line, column = edits.start(function)
    word = "async def " if isinstance(function, ast.AsyncFunctionDef) else "def "
    return (line, column), (line, column + len(f"{word}{function.name}".encode()))


def _updates(source: Source, whole: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Call) and finding.called(n) in UPDATES
        for one in source.called(whole)
        for n in trees.walk(one)
    )


def _here(source: Source, whole: ast.AST) -> bool:
    """Whether the loop surely runs in Python: what holds it is called in this file, or does what no graph can.

    A function that only other files call may be one of their ``tf.function``s, loop and all.
    """
    holder = finding.function(source, whole) if not isinstance(whole, FUNCTIONS) else whole
    if holder is None or index.of(source).called(holder.name):
        return True
    calls = (n for n in trees.walk(holder) if isinstance(n, ast.Call))
    return any(finding.called(c) in OF_PYTHON for c in calls)


def _looped(source: Source, function: ast.AST, depth: int = 3) -> bool:
    """Whether a function is called in a loop of this file, directly or by functions that are."""
    name = getattr(function, "name", "")
    for call in index.of(source).called(name):
        if scopes.loops(source, call):
            return True
        outer = finding.function(source, call)
        if depth and outer is not None and outer is not function and _looped(source, outer, depth - 1):
            return True
    return False


def _in_graph(source: Source, tape: ast.AST) -> bool:
    """Whether a graph is made of the step, of what it stands in, or of any function that calls it."""
    todo: list[ast.AST] = []
    at = finding.function(source, tape)
    while at is not None:
        todo.append(at)
        at = finding.function(source, at)
    seen: set[ast.AST] = set()
    while todo:
        one = todo.pop()
        if one in seen or not isinstance(one, FUNCTIONS):
            continue
        seen.add(one)
        if graphable.graphed(source, one) or _wrapped(source, one.name) or one.decorator_list:
            return True
        above = finding.parents(source).get(one)
        if isinstance(above, ast.ClassDef) and one.name in ("train_step", "call"):
            return True  # Keras makes the graph
        for call in index.of(source).called(one.name):
            outer = finding.function(source, call)
            if outer is not None:
                todo.append(outer)
    return False


def by_hand(source: Source) -> Iterator[ast.Attribute]:
    """``model.train_step`` of a class of this file where a loop calls it: only Keras's own loops make a graph of it."""
    for tape in index.of(source).called("GradientTape"):
        step = finding.function(source, tape)
        kind = finding.parents(source).get(step) if step is not None else None
        if step is None or step.name != "train_step" or not isinstance(kind, ast.ClassDef) or step.decorator_list:
            continue
        named = [n for n in index.nodes(source, ast.Attribute) if isinstance(n, ast.Attribute) and n.attr == step.name]
        calls = [_looped_call(source, n) for n in named]
        if named and all(calls) and not any(isinstance(n.value, ast.Call) for n in named):
            yield named[0]


def _looped_call(source: Source, named: ast.Attribute) -> bool:
    """Whether all that is done with the method is to call it in a loop that is no graph."""
    above = finding.parents(source)
    holder = above.get(named)
    calls: list[ast.Call] = [holder] if isinstance(holder, ast.Call) and holder.func is named else []
    if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
        alias = holder.targets[0].id
        uses = [n for n in values.loads(source, alias) if values.assigned(source, n) is named]
        calls = [c for n in uses if isinstance(c := above.get(n), ast.Call) and c.func is n]
        if len(calls) != len(uses):
            return False
    functions = [finding.function(source, c) for c in calls]
    plain = not any(f is not None and (f.decorator_list or _wrapped(source, f.name)) for f in functions)
    return plain and bool(calls) and all(visible.repeated(source, c, 2) is not None for c in calls)


def _wrapped(source: Source, name: str) -> bool:
    """Whether the function is given to something by its name: ``tf.function(step)``, ``strategy.run(step)``."""
    for call in index.of(source).called("function"):  # of whatever ``getattr`` finds
        if call.args and isinstance(call.args[0], ast.Call) and finding.called(call.args[0]) == "getattr":
            return True
    for node in trees.walk(source.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if (node.id if isinstance(node, ast.Name) else node.attr) == name:
            above = finding.parents(source).get(node)
            if not (isinstance(above, ast.Call) and above.func is node):
                return True
    return False
