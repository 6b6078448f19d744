"""Where the cause input/starved-host shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.input.starved_host import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Pipelines that ask for several calls at once and have one thread."""
    for limit in single_thread_pools(source):
        made = tuple(dataset_edits.remove_thread_limit(source, limit.lineno))
        maps = [c for c in call_index.index_of(source).calls_of("map") if c.args and dataset_chains.is_operation(c)]
        drawn = any(repeatable_functions.may_vary_by_call(source, c.args[0]) for c in maps)
        cure = Prescription("edit", Effect.EQUIVALENT if drawn else Effect.EXACT, fix.ONE_THREAD_CURE, edits=made)
        says = "the data set asks for several calls at once, but this leaves it one thread"
        yield spots.node_spot(limit, says, cure)


def single_thread_pools(source: Source) -> Iterator[ast.Assign]:
    """Find options that give one thread to a pipeline with parallel calls."""
    for node in call_index.nodes_of_class(source, ast.Assign):
        assert isinstance(node, ast.Assign)
        target = node.targets[0]
        if (
            not isinstance(target, ast.Attribute)
            or target.attr not in dataset_stages.POOL_SIZE_OPTIONS
            or queries.int_at(source, node.value) != 1
        ):
            continue
        options = scope_names.dotted_name(target).partition(".")[0]
        for flow in whole_pipelines.pipelines_of(source):
            given = [
                _options_name(source, c.args[0])
                for c in flow.calls
                if node_lookup.called_name(c) == "with_options" and c.args
            ]
            if options in given and any(dataset_stages.asks_for_parallel_calls(source, c) for c in flow.calls):
                yield node
                break


def _options_name(source: Source, given: ast.expr) -> str:
    """Return the name of the options, in the function that creates them if there is one."""
    made = (
        node_lookup.function_named(source, node_lookup.called_name(given), given)
        if isinstance(given, ast.Call)
        else None
    )
    back = (
        [n.value for n in scope_names.nodes_in_scope(made.body) if isinstance(n, ast.Return)]
        if made is not None
        else []
    )
    return scope_names.dotted_name(back[0] if len(back) == 1 and back[0] is not None else given)
