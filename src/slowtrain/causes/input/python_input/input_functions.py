"""The Python functions which make the input of a training: generators, sequences, functions of a map."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from slowtrain.causes.input.python_input import sample_loops
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.lint_rules import step_code
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text.source_file import Source

PASSING_FUNCTIONS = frozenset(
    {"enumerate", "iter", "tqdm", "islice", "cycle"}
)  # they yield the items of their argument
SEQUENCE_CLASSES = frozenset({"PyDataset", "Sequence"})
PYTHON_FUNCTION_OPS = ("numpy_function", "py_function")


class InputFunction(Struct, frozen=True):
    """A Python function that runs for each element or batch of the training input.

    ``single``: it runs for one element of a map. ``each``: it runs for one sample that is batched later.
    """

    function: ast.FunctionDef | ast.Lambda
    given: ast.expr
    single: bool
    each: bool = False


def input_functions(source: Source) -> Iterator[InputFunction]:
    """Yield the functions of this file that make input without worker processes."""
    for call in call_index.index_of(source).calls_of("from_generator", *PYTHON_FUNCTION_OPS):
        given = node_lookup.argument_value(
            call, "generator" if node_lookup.called_name(call) == "from_generator" else "func", 0
        )
        if node_lookup.called_name(call) in PYTHON_FUNCTION_OPS:
            if step_code.is_in_step(source, call) and step_code.takes_values(call):
                continue  # it belongs to host/python-in-step
            outer = node_lookup.argument_value(call, "func", 0)
            given = outer if name_bindings.qualified_name(source, call.func).startswith("tensorflow.") else None
        elif not dataset_chains.makes_dataset(source, call) or any(
            "cache" in f.names for f in whole_pipelines.pipelines_with(source, call)
        ):
            continue
        made = called_function(source, given, call)
        if made is not None and given is not None:
            yield InputFunction(
                made, given, node_lookup.called_name(call) in PYTHON_FUNCTION_OPS, _is_per_sample(source, call)
            )
    for call in call_index.index_of(source).calls_of("fit", "fit_generator"):
        given = node_lookup.argument_value(call, "x", 0) or node_lookup.argument_value(call, "generator")
        if given is not None and node_lookup.argument_value(call, "workers") is None:
            yield from _iterated_functions(source, given, call)
    for steps in step_loops.step_loops_of(source):
        if isinstance(steps.loop, ast.For):
            yield from _iterated_functions(source, steps.loop.iter, steps.loop)
    yield from _sequence_functions(source)


def _is_per_sample(source: Source, call: ast.Call) -> bool:
    """Whether the function runs for one sample, because batches are made later."""
    places = [call]
    if node_lookup.called_name(call) in PYTHON_FUNCTION_OPS:
        holder = node_lookup.enclosing_node(source, call, ast.Lambda) or node_lookup.enclosing_function(source, call)
        maps = [c for c in call_index.index_of(source).calls_of("map") if dataset_chains.is_operation(c)]
        places = [
            c for c in maps if whole_pipelines.mapped_function(source, c) in (holder, _surrounding_lambda(source, call))
        ]
    several = [(f, c) for c in places for f in whole_pipelines.pipelines_with(source, c)]
    return bool(several) and all(whole_pipelines.is_element_wise(f, c) for f, c in several)


def _surrounding_lambda(source: Source, node: ast.AST) -> ast.AST | None:
    above = node_lookup.parents_of(source)
    found: ast.AST | None = node
    while found is not None and not isinstance(found, (ast.Lambda, ast.stmt)):
        found = above.get(found)
    return found if isinstance(found, ast.Lambda) else None


def _iterated_functions(source: Source, given: ast.expr, near: ast.AST) -> Iterator[InputFunction]:
    """Yield the generator of this file that training iterates over: a function, method or object."""
    while isinstance(given, ast.Call) and node_lookup.called_name(given) in PASSING_FUNCTIONS and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name):
        given = (
            dataset_chains.last_assignment(source, given, near)
            or dataset_chains.parameter_argument(source, given)
            or given
        )
    if not isinstance(given, ast.Call):
        return
    made = node_lookup.function_named(source, node_lookup.called_name(given), near)
    if made is None:
        made = _object_method(source, given, "__next__") or _object_method(source, given, "__iter__")
    next_one = made is not None and made.name == "__next__"
    if made is not None and (
        next_one or any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(scope_names.scope_body(made)))
    ):
        yield InputFunction(made, given, False)


def _may_have_sequences(source: Source) -> bool:
    return "__getitem__" in source.words and not source.words.isdisjoint(SEQUENCE_CLASSES)


def _sequence_functions(source: Source) -> Iterator[InputFunction]:
    """Yield ``__getitem__`` of sequences that this file uses without workers."""
    for node in call_index.nodes_of_class(source, ast.ClassDef) if _may_have_sequences(source) else ():
        assert isinstance(node, ast.ClassDef)
        bases = [name_bindings.qualified_name(source, b) for b in node.bases]
        if not any(b.startswith("keras.") and b.rpartition(".")[2] in SEQUENCE_CLASSES for b in bases):
            continue
        made = call_index.index_of(source).calls_of(node.name)
        inner = [c for n in node.body for c in whole_pipelines.calls_in([n])]
        if not made or any(node_lookup.argument_value(c, "workers") is not None for c in (*made, *inner)):
            continue
        if any(
            node_lookup.argument_value(c, "workers") is not None
            for c in call_index.index_of(source).calls_of("fit", "fit_generator")
        ):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                yield InputFunction(method, node.bases[0], False)


def _object_method(source: Source, given: ast.expr, name: str) -> ast.FunctionDef | None:
    """Return the method of the object ``given``, if its class is in this file."""
    holder = queries.object_class_at(source, given)
    made = class_members.own_method(holder, name) if holder is not None else None
    return made if isinstance(made, ast.FunctionDef) else None


def called_function(
    source: Source, given: ast.expr | None, near: ast.AST, depth: int = sample_loops.MAX_CALL_DEPTH
) -> ast.FunctionDef | ast.Lambda | None:
    """Return the function that a call of ``given`` runs: itself, its only callee, or ``__call__`` of an object.

    For a parameter, the function that all calls pass.
    """
    if isinstance(given, ast.Lambda):
        inner = given.body.func if isinstance(given.body, ast.Call) else None
        return _named_function(source, inner, near) or given
    made = _named_function(source, given, near)
    if made is not None or not depth:
        return made
    if isinstance(given, ast.Call) and node_lookup.called_name(given) == "partial" and given.args:
        return called_function(source, given.args[0], near, depth - 1)
    if not isinstance(given, ast.Name):
        return None
    function = node_lookup.enclosing_function(source, given)
    several = [name_bindings.single_assignment(source, given)]
    if function is not None and given.id in scope_names.parameter_names(function):
        several = [*call_arguments.arguments_for(source, function, given.id)]
    found = {called_function(source, one, one, depth - 1) for one in several if one is not None}
    return found.pop() if len(found) == 1 else None


def _named_function(source: Source, given: ast.expr | None, near: ast.AST) -> ast.FunctionDef | None:
    made: ast.FunctionDef | None = None
    if isinstance(given, ast.Name):
        made = node_lookup.function_named(source, given.id, near)
    elif isinstance(given, ast.Attribute):
        made = node_lookup.function_named(source, given.attr, near) or _object_method(source, given.value, given.attr)
    if made is None and given is not None and "__call__" in source.text:
        made = _object_method(source, given, "__call__")
    return made
