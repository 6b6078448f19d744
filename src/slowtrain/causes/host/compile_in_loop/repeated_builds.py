"""Models and functions that a loop creates in each iteration although no iteration needs another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from slowtrain.causes.host.compile_in_loop import MIN_BUILDS
from slowtrain.causes.host.compile_in_loop.model_hoisting import hoist_model
from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

INTEGER_DRAWS = frozenset("integers randint randrange random_integers".split())


class RepeatedBuild(Struct, frozen=True):
    """The range of the code, the text of the spot, and the edits that move it out of the loop."""

    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    changed: tuple[Edit, ...]


def repeated_compiles(source: Source) -> Iterator[RepeatedBuild]:
    """``compile()`` in a loop on a model that is compiled already, with no change but the learning rate."""
    for call in call_index.index_of(source).calls_of("compile") if call_index.takes_training_steps(source) else ():
        loops = scope_names.enclosing_loops(source, call)
        iterations = queries.loop_turns(source, loops[0]) if loops else 0
        if iterations is not None and iterations < MIN_BUILDS:
            continue
        changed = tuple(moved_statements.assign_learning_rate(source, call.lineno))
        if changed:
            yield RepeatedBuild(
                *call_index.operation_range(call),
                "compile() in each iteration of a loop discards the traced graph",
                changed,
            )


def repeated_functions(source: Source) -> Iterator[RepeatedBuild]:
    """Each ``tf.function`` that a loop defines, itself or by a call, and then calls."""
    if not graph_code.may_have_graphs(source):
        return
    makers: set[str] = set()
    for graph in graph_code.traced_functions(source):
        loops = scope_names.enclosing_loops(source, graph.function)
        outer = node_lookup.enclosing_function(source, graph.function)
        if loops and not _is_excused(source, graph.function, loops[0], graph.names[0]):
            yield _defined_function_build(graph.function)
        elif outer is not None and not loops and _returns_name(outer, graph.names[0]):
            makers.add(outer.name)
    for call in call_index.index_of(source).calls_of("function"):
        loops = scope_names.enclosing_loops(source, call)
        holder = node_lookup.enclosing_statement(source, call)
        if not loops or name_bindings.qualified_name(source, call.func) != "tensorflow.function":
            continue
        name = holder.targets[0] if isinstance(holder, ast.Assign) and holder.value is call else None
        if isinstance(name, ast.Name) and holder is not None and not _is_excused(source, holder, loops[0], name.id):
            says = "tf.function() in a loop is traced in each iteration"
            yield RepeatedBuild(edits.node_start(call), edits.node_end(call), says, ())
    for call in call_index.index_of(source).calls_of(*sorted(makers)) if makers else ():
        yield from _factory_call_builds(source, call)


def _defined_function_build(function: ast.FunctionDef) -> RepeatedBuild:
    first = function.decorator_list[0]
    says = f"{function.name} is a new tf.function in each iteration of the loop, and is traced again"
    return RepeatedBuild(edits.node_start(first), edits.node_end(first), says, ())


def _factory_call_builds(source: Source, call: ast.Call) -> Iterator[RepeatedBuild]:
    loops, holder = scope_names.enclosing_loops(source, call), node_lookup.enclosing_statement(source, call)
    if not loops or not isinstance(holder, ast.Assign) or holder.value is not call:
        return
    name = holder.targets[0]
    if isinstance(name, ast.Name) and not _is_excused(source, holder, loops[0], name.id):
        says = (
            f"{node_lookup.called_name(call)}() creates a new tf.function in each iteration of the loop, which is "
            "traced again"
        )
        yield RepeatedBuild(edits.node_start(call), edits.node_end(call), says, tuple(hoist_model(source, call.lineno)))


def _returns_name(function: ast.AST, name: str) -> bool:
    found = [n.value for n in scope_names.nodes_in_scope(scope_names.scope_body(function)) if isinstance(n, ast.Return)]
    return len(found) == 1 and isinstance(found[0], ast.Name) and found[0].id == name


def _is_excused(source: Source, made: ast.stmt, loop: ast.For | ast.While, name: str) -> bool:
    """Whether each iteration needs its own, does not use it, or there are few iterations."""
    if queries.has_few_turns(source, loop) or scope_names.is_literal_loop(loop):
        return True
    called = [c for c in call_index.index_of(source).calls_of(name) if loop in scope_names.enclosing_loops(source, c)]
    return not called or bool(scope_names.read_names(made) & _loop_dependent_names(source, loop, made))


def _loop_dependent_names(source: Source, loop: ast.For | ast.While, made: ast.stmt) -> set[str]:
    """Names that differ between iterations: the loop's variables, names computed from them, counters, random values."""
    differ = scope_names.bound_names(loop.target) if isinstance(loop, ast.For) else set()
    every = [
        n
        for n in scope_names.nodes_in_scope(list(loop.body))
        if isinstance(n, (ast.Assign, ast.AugAssign, ast.For, ast.With))
    ]
    for _ in range(3):
        for one in every:
            if one is made:
                continue
            value = one.iter if isinstance(one, ast.For) else getattr(one, "value", None)
            parts = source.reachable_functions(value) if value is not None else [one]
            read = {
                n for p in parts if not isinstance(p, FUNCTION_NODES) or p is value for n in scope_names.read_names(p)
            }
            if isinstance(one, (ast.AugAssign, ast.With)) or read & differ or _draws_random_numbers(parts):
                differ |= scope_names.bound_names(one.target if isinstance(one, ast.For) else one)
    return differ


def _draws_random_numbers(parts: Sequence[ast.AST]) -> bool:
    return any(
        isinstance(n, ast.Call) and node_lookup.called_name(n) in INTEGER_DRAWS
        for p in parts
        for n in syntax_tree.walk(p)
    )
