"""Gradients in a list, and ops in a graph, that a loop of training steps keeps from every iteration.

Lists of losses are not reported: they are scalars, and reading them at the end of an epoch spares each step a wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

SHORTENING_METHODS = frozenset({"clear", "pop", "popleft", "remove"})
BRANCHING_NODES = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match)
ASSIGNING_METHODS = frozenset({"assign", "assign_add", "assign_sub"})


@dataclass(frozen=True)
class KeptPlace:
    node: ast.expr
    says: str
    cure: str


def find_kept_gradients(source: Source) -> Iterator[KeptPlace]:
    """``history.append(grads)`` in every iteration, if ``grads`` are all gradients of the step."""
    for steps in step_loops.step_loops_of(source):
        names = (
            _gradient_names(source, steps) if steps.graph and not queries.has_few_turns(source, steps.loop) else set()
        )
        for one in step_loops.statements_per_turn(steps.loop) if names else ():
            call = one.value if isinstance(one, ast.Expr) else None
            if not isinstance(call, ast.Call) or node_lookup.called_name(call) != "append" or len(call.args) != 1:
                continue
            given = call.args[0]
            inside = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
            if any(isinstance(v, ast.Name) and v.id in names for v in inside) and is_never_shortened(source, call):
                says = "each step's gradients stay in memory: as many bytes as the model for each step"
                yield KeptPlace(call, says, "keep a number of them, such as tf.linalg.global_norm(grads)")


def find_added_ops(source: Source) -> Iterator[KeptPlace]:
    """``session.run(tf.add(a, b))`` in a loop: every iteration adds an op to the graph."""
    if "Session(" not in source.text:
        return
    for call in call_index.index_of(source).called("run"):
        loops = scope_names.enclosing_loops(source, call)
        if not loops or queries.has_few_turns(source, loops[0]) or _makes_own_graph(loops[-1]):
            continue
        given = [*call.args[:1], *_values_run_in_session(loops[0], call)]
        library = bool(name_bindings.qualified_name(source, call.func))  # subprocess.run
        nodes = [node for one in given for node in syntax_tree.walk(one)]
        if any(_calls_op(source, n) for n in nodes) or (
            not library and any(_calls_function_with_ops(source, n) for n in nodes)
        ):
            says = "each iteration of this loop adds ops to the graph, which keeps them"
            yield KeptPlace(call, says, "make the op once before the loop, and run it in the loop")


def _values_run_in_session(loop: ast.AST, run: ast.Call) -> Iterator[ast.expr]:
    """Values that the loop binds to the names that it passes to ``session.run``."""
    asked = {n.id for given in run.args[:1] for n in syntax_tree.walk(given) if isinstance(n, ast.Name)}
    for one in getattr(loop, "body", ()):
        if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id in asked for t in one.targets):
            yield one.value


def _gradient_names(source: Source, steps: step_loops.StepLoop) -> set[str]:
    """Names that the loop binds to all gradients that its step returns."""
    function = node_lookup.function_named(source, node_lookup.called_name(steps.call))
    if function is None:
        return set()
    taken = [n for n in syntax_tree.walk(function) if isinstance(n, ast.Assign) and _is_gradient(n.value)]
    inner = {t.id for n in taken for t in n.targets if isinstance(t, ast.Name)}
    return {outer for name, outer in returned_names(source, steps) if name in inner}


def returned_names(source: Source, steps: step_loops.StepLoop) -> Iterator[tuple[str, str]]:
    """Names that a step's function returns, each with the name that the loop binds to it."""
    function = node_lookup.function_named(source, node_lookup.called_name(steps.call))
    statement = node_lookup.enclosing_statement(source, steps.call)
    if function is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    back = [
        n.value for n in scope_names.nodes_in_scope(function.body) if isinstance(n, ast.Return) and n.value is not None
    ]
    target = statement.targets[0]
    if len(back) != 1:
        return
    pairs: list[tuple[ast.expr, ast.expr]] = [(back[0], target)]
    if isinstance(back[0], ast.Tuple) and isinstance(target, ast.Tuple) and len(back[0].elts) == len(target.elts):
        pairs = list(zip(back[0].elts, target.elts, strict=True))
    for value, name in pairs:
        if isinstance(value, ast.Name) and isinstance(name, ast.Name):
            yield value.id, name.id


def _is_gradient(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and node_lookup.called_name(node) == "gradient"


def is_never_shortened(source: Source, append: ast.Call) -> bool:
    """Whether the list is made once, outside every loop, and nothing shortens it."""
    held = append.func.value if isinstance(append.func, ast.Attribute) else None
    if not isinstance(held, ast.Name):
        return False
    made = name_bindings.single_assignment(source, held)
    if not isinstance(made, ast.List) or scope_names.enclosing_loops(source, made):
        return False
    shortened = call_index.index_of(source).called(*SHORTENING_METHODS)
    if any(isinstance(c.func, ast.Attribute) and scope_names.is_name(c.func.value, held.id) for c in shortened):
        return False
    return not any(
        scope_names.is_name(t, held.id)
        for n in call_index.nodes_of_kind(source, ast.Delete)
        for d in n.targets  # type: ignore[attr-defined]
        for t in syntax_tree.walk(d)
    )


def _calls_op(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if name_bindings.qualified_name(source, node.func).startswith("tensorflow."):
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in ASSIGNING_METHODS


def _calls_function_with_ops(source: Source, node: ast.AST) -> bool:
    """Whether the node calls a function of the file that makes an op each time, without a branch or a cache."""
    made = queries.called_function(source, node) if isinstance(node, ast.Call) else None
    if made is None or made.decorator_list or _makes_own_graph(made):
        return False
    inside = list(scope_names.nodes_in_scope(made.body))
    return not any(isinstance(n, BRANCHING_NODES) for n in inside) and any(_calls_op(source, n) for n in inside)


def _makes_own_graph(loop: ast.AST) -> bool:
    """Whether each iteration has a graph of its own, which is freed with it."""
    named = {n.attr for n in syntax_tree.walk(loop) if isinstance(n, ast.Attribute)}
    return bool(named & {"as_default", "Graph", "reset_default_graph"})
