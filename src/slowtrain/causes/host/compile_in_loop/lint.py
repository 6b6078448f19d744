"""Finds the cause host/compile-in-loop in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.host.compile_in_loop import fix, repeated_builds
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.run_context import Scope
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

TRAINING_METHODS = (".fit", ".train_on_batch")


def find_spots(source: Source) -> Iterable[Spot]:
    """Models and functions that are compiled, built or defined in a loop although no iteration needs a new one."""
    builds = [(one, Effect.EXACT) for one in repeated_builds.repeated_compiles(source)]
    builds += [(one, Effect.EQUIVALENT) for one in repeated_builds.repeated_functions(source)]
    for one, effect in builds:
        yield Spot(one.start, one.end, one.says, Prescription("edit", effect, fix.BUILD_ONCE, edits=one.changed))
    for node, says in () if builds else reached_builds(source):
        start, end = (
            call_index.operation_range(node)
            if isinstance(node, ast.Call)
            else (edits.node_start(node), edits.node_end(node))
        )
        if isinstance(node, ast.Call) and node_lookup.called_name(node) == "compile":
            changed = tuple(fix.reset_optimizer(source, node.lineno))
        else:
            changed = tuple(fix.remember_function(source, node.lineno))
        yield Spot(start, end, says, Prescription("edit", Effect.EQUIVALENT, fix.BUILD_ONCE, edits=changed))


def reached_builds(source: Source) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Find models and graphs that a loop compiles in each iteration without need, with a description."""
    every = file_events(source) if ".compile" in source.text or graph_code.may_have_graphs(source) else ()
    for event in every:
        if event.name == ".compile" and event.on is not None and event.on.kind in ("keras", "object"):
            alike = [one for one in event.regular_loops(graph_code.MIN_BUILDS) if one.number not in event.on.varies]
            used = [e.name for e in every if e.on is event.on and alike and alike[-1] in e.loops]
            if alike and alike[-1].number in event.on.born and ".set_weights" not in used:
                continue  # a new model with new weights
            if any(name in TRAINING_METHODS for name in used):
                yield event.node, "a loop compiles this model in each turn, and its graphs are traced anew"
    for event, graph in graph_code.graph_calls(source):
        rare = {n for e in every if e.node is graph.node and e.name == "tensorflow.function" for n in e.rare}
        loops = [
            one.number for one in event.regular_loops(graph_code.MIN_BUILDS) if one.number in set(graph.born) - rare
        ]
        again = loops and not _captures_varying_value(graph, set(loops))
        if again and isinstance(graph.node, (ast.expr, ast.stmt)):
            yield (
                graph.node,
                f"each turn of a loop makes {graph.name or 'this tf.function'} anew, and it is traced anew",
            )


def _captures_varying_value(graph: Value, loops: set[int]) -> bool:
    """Whether a name that the graph captures changes in each iteration, so that each iteration needs its own graph.

    An object that each iteration builds in the same way, such as a model per fold, does not count.
    """
    function = graph.of
    if function is None or not isinstance(function.data, Scope) or function.node is None:
        return True
    found = (function.data.find(name) for name in scope_names.read_names(function.node))
    return any(one is not None and one.varies & loops and not _can_be_argument(one) for one in found)


def _can_be_argument(value: Value) -> bool:
    """Whether one graph can take the value as an argument: tensors and floats."""
    return value.kind in ("tensor", "array") or (value.kind == "number" and value.name == "float")
