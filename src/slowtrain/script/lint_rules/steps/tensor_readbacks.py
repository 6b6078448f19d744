"""Lint rules about tensor values that a training loop reads back to Python in each iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.script.fixes.loops import deferred_readbacks
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

NUMBER_BUILTINS = frozenset({"float", "int", "bool"})
VARIABLE_ATTRIBUTES = frozenset(
    {"trainable_variables", "trainable_weights", "weights", "variables", "non_trainable_variables"}
)


@dataclass(frozen=True)
class TensorReadback:
    node: ast.stmt | ast.expr
    says: str


def step_readbacks(source: Source) -> Iterator[TensorReadback]:
    """Find loops and comprehensions over tensors, and reports of values, in each iteration of a training loop."""
    for steps in step_loops.step_loops_of(source):
        if not steps.graph:
            continue  # Keras returns Python numbers
        for one in step_loops.statements_per_turn(steps.loop):
            found = (
                _loop_readback(one, steps.results)
                if isinstance(one, ast.For)
                else _comprehension_readback(one, steps.results)
            )
            if found is None and step_loops.has_outer_loop(source, steps):
                found = _report_readback(one, steps.results)
            if found is not None:
                yield found
                break  # one finding per loop
        else:
            yield from _function_readbacks(source, steps)


def _function_readbacks(source: Source, steps: step_loops.StepLoop) -> Iterator[TensorReadback]:
    """Find readbacks in called functions: loops over results of the step, copies of weights through NumPy."""
    for call, function in step_loops.functions_per_turn(source, steps):
        names = {
            name for name in scope_names.parameter_names(function)
            if isinstance(given := call_arguments.argument_in(function, call, name),
            ast.Name) and given.id in steps.results
        }  # fmt: skip
        for one in step_loops.statements_per_turn(function):
            back = frozenset(names)
            found = None
            if names:
                found = _loop_readback(one, back) if isinstance(one, ast.For) else _comprehension_readback(one, back)
            if found is None and not queries.has_few_turns(source, steps.loop):
                found = _weight_copy(function, one)
            if found is not None:
                yield found
                return
    for one in step_loops.statements_per_turn(steps.loop) if not queries.has_few_turns(source, steps.loop) else ():
        found = _weight_copy(steps.loop, one)
        if found is not None:
            yield found
            return


def _weight_copy(block: ast.For | ast.While | ast.FunctionDef, one: ast.stmt) -> TensorReadback | None:
    """Find ``set_weights`` with the result of ``get_weights`` in the same iteration."""
    if isinstance(one, (ast.For, ast.While)):
        return None
    taken = [
        n for n in syntax_tree.walk(one) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "set_weights"
    ]
    every = {
        node_lookup.called_name(n)
        for s in step_loops.statements_per_turn(block)
        for n in syntax_tree.walk(s)
        if isinstance(n, ast.Call)
    }
    if not taken or "get_weights" not in every:
        return None
    return TensorReadback(one, "each step copies all weights to NumPy and back")


def _loop_readback(one: ast.For, results: frozenset[str]) -> TensorReadback | None:
    """Find ``for value in per_sample: seen.append(float(value))``."""
    names = scope_names.bound_names(one.target)
    if not _iterates_tensors(one.iter, results) or not any(
        _is_readback(n, names) for s in one.body for n in syntax_tree.walk(s)
    ):
        return None
    return TensorReadback(one, "each step reads the values of a tensor back one by one")


def _comprehension_readback(one: ast.stmt, results: frozenset[str]) -> TensorReadback | None:
    """Find ``[g.numpy() for g in norms]``."""
    for node in syntax_tree.walk(one):
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            continue
        names = {n for g in node.generators for n in scope_names.bound_names(g.target)}
        if any(_iterates_tensors(g.iter, results) for g in node.generators) and any(
            _is_readback(n, names) for n in syntax_tree.walk(node.elt)
        ):
            return TensorReadback(one, "each step reads one tensor after the other back")
    return None


def _report_readback(one: ast.stmt, results: frozenset[str]) -> TensorReadback | None:
    """Find ``print(step, loss.numpy())`` in every step."""
    if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Call):
        return None
    if node_lookup.called_name(one.value) not in deferred_readbacks.REPORT_FUNCTIONS - {
        "scalar",
        "add_scalar",
        "flush",
    }:
        return None
    given = [*one.value.args, *(k.value for k in one.value.keywords)]
    if any(_is_readback(n, results) for g in given for n in syntax_tree.walk(g)):
        return TensorReadback(one, "every step reads values back for a line of log")
    return None


def _iterates_tensors(over: ast.expr, results: frozenset[str]) -> bool:
    """Whether a loop iterates over results of a step, or over variables."""
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("zip", "enumerate", "reversed"):
        return any(_iterates_tensors(a, results) for a in over.args)
    if isinstance(over, ast.Attribute):
        return over.attr in VARIABLE_ATTRIBUTES
    return isinstance(over, ast.Name) and over.id in results


def _is_readback(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    """Whether a value of ``names`` becomes a Python number or text: ``v.numpy()``, ``float(v)``, ``{v:.3f}``."""
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name) and node.value.id in names
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in deferred_readbacks.READ_METHODS and not node.args:
        return bool(names & _names_in(node.func.value))
    if isinstance(node.func, ast.Name) and node.func.id in NUMBER_BUILTINS and len(node.args) == 1:
        return bool(names & _names_in(node.args[0]))
    return False


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in syntax_tree.walk(node) if isinstance(n, ast.Name)}
