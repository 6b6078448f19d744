"""Lint rules about tensor values that a training loop reads back to Python in each iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.properties import handwritten_steps
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.transfer import readbacks
from slowtrain.values import dataclass

PYTHONIC = frozenset({"float", "int", "bool"})
VARIABLES = frozenset({"trainable_variables", "trainable_weights", "weights", "variables", "non_trainable_variables"})


@dataclass(frozen=True)
class Read:
    node: ast.stmt | ast.expr
    says: str


def back(source: Source) -> Iterator[Read]:
    """Find loops and comprehensions over tensors, and reports of values, in each iteration of a training loop."""
    for steps in handwritten_steps.step_loops_of(source):
        if not steps.graph:
            continue  # Keras returns Python numbers
        for one in handwritten_steps.statements_per_turn(steps.loop):
            found = _over(one, steps.results) if isinstance(one, ast.For) else _comprehended(one, steps.results)
            if found is None and handwritten_steps.has_outer_loop(source, steps):
                found = _reported(one, steps.results)
            if found is not None:
                yield found
                break  # one finding per loop
        else:
            yield from _entered(source, steps)


def _entered(source: Source, steps: handwritten_steps.StepLoop) -> Iterator[Read]:
    """Find readbacks in called functions: loops over results of the step, copies of weights through NumPy."""
    for call, function in handwritten_steps.functions_per_turn(source, steps):
        names = {
            name for name in scope_names.parameter_names(function)
            if isinstance(given := call_arguments.argument_in(function, call, name),
            ast.Name) and given.id in steps.results
        }  # fmt: skip
        for one in handwritten_steps.statements_per_turn(function):
            back = frozenset(names)
            found = None
            if names:
                found = _over(one, back) if isinstance(one, ast.For) else _comprehended(one, back)
            if found is None and not queries.has_few_turns(source, steps.loop):
                found = _copied(function, one)
            if found is not None:
                yield found
                return
    for one in (
        handwritten_steps.statements_per_turn(steps.loop) if not queries.has_few_turns(source, steps.loop) else ()
    ):
        found = _copied(steps.loop, one)
        if found is not None:
            yield found
            return


def _copied(block: ast.For | ast.While | ast.FunctionDef, one: ast.stmt) -> Read | None:
    """Find ``set_weights`` with the result of ``get_weights`` in the same iteration."""
    if isinstance(one, (ast.For, ast.While)):
        return None
    taken = [
        n for n in syntax_tree.walk(one) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "set_weights"
    ]
    every = {
        node_lookup.called_name(n)
        for s in handwritten_steps.statements_per_turn(block)
        for n in syntax_tree.walk(s)
        if isinstance(n, ast.Call)
    }
    if not taken or "get_weights" not in every:
        return None
    return Read(one, "each step copies all weights to NumPy and back")


def _over(one: ast.For, results: frozenset[str]) -> Read | None:
    """Find ``for value in per_sample: seen.append(float(value))``."""
    names = scope_names.bound_names(one.target)
    if not _tensors(one.iter, results) or not any(_reads(n, names) for s in one.body for n in syntax_tree.walk(s)):
        return None
    return Read(one, "each step reads the values of a tensor back one by one")


def _comprehended(one: ast.stmt, results: frozenset[str]) -> Read | None:
    """Find ``[g.numpy() for g in norms]``."""
    for node in syntax_tree.walk(one):
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            continue
        names = {n for g in node.generators for n in scope_names.bound_names(g.target)}
        if any(_tensors(g.iter, results) for g in node.generators) and any(
            _reads(n, names) for n in syntax_tree.walk(node.elt)
        ):
            return Read(one, "each step reads one tensor after the other back")
    return None


def _reported(one: ast.stmt, results: frozenset[str]) -> Read | None:
    """Find ``print(step, loss.numpy())`` in every step."""
    if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Call):
        return None
    if node_lookup.called_name(one.value) not in readbacks.REPORTS - {"scalar", "add_scalar", "flush"}:
        return None
    given = [*one.value.args, *(k.value for k in one.value.keywords)]
    if any(_reads(n, results) for g in given for n in syntax_tree.walk(g)):
        return Read(one, "every step reads values back for a line of log")
    return None


def _tensors(over: ast.expr, results: frozenset[str]) -> bool:
    """Whether a loop iterates over results of a step, or over variables."""
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("zip", "enumerate", "reversed"):
        return any(_tensors(a, results) for a in over.args)
    if isinstance(over, ast.Attribute):
        return over.attr in VARIABLES
    return isinstance(over, ast.Name) and over.id in results


def _reads(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    """Whether a value of ``names`` becomes a Python number or text: ``v.numpy()``, ``float(v)``, ``{v:.3f}``."""
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name) and node.value.id in names
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in readbacks.READS and not node.args:
        return bool(names & _named(node.func.value))
    if isinstance(node.func, ast.Name) and node.func.id in PYTHONIC and len(node.args) == 1:
        return bool(names & _named(node.args[0]))
    return False


def _named(node: ast.AST) -> set[str]:
    return {n.id for n in syntax_tree.walk(node) if isinstance(n, ast.Name)}
