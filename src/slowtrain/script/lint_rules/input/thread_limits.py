"""Lint rules about limits on the threads of data sets: private pools, and the pool shared with ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text.source_file import Source

SHARED_POOL_FUNCTION = "set_inter_op_parallelism_threads"
POOL_SIZE_OPTIONS = frozenset({"private_threadpool_size", "experimental_threading_private_threadpool_size"})


def single_thread_pools(source: Source) -> Iterator[ast.Assign]:
    """Find options that give one thread to a pipeline with parallel calls."""
    for node in call_index.nodes_of_kind(source, ast.Assign):
        assert isinstance(node, ast.Assign)
        target = node.targets[0]
        if (
            not isinstance(target, ast.Attribute)
            or target.attr not in POOL_SIZE_OPTIONS
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
            if options in given and any(_asks_for_parallel_calls(source, c) for c in flow.calls):
                yield node
                break


def shared_thread_limits(source: Source) -> Iterator[ast.Call]:
    """Find settings of one inter-op thread in a file with a parallel map of long work."""
    for call in call_index.index_of(source).called(SHARED_POOL_FUNCTION):
        given = node_lookup.argument_value(call, "num_threads", 0)
        if name_bindings.qualified_name(source, call.func) != f"tensorflow.config.threading.{SHARED_POOL_FUNCTION}":
            continue
        private = any(name in source.text for name in POOL_SIZE_OPTIONS)
        if queries.int_at(source, given) != 1 or private:
            continue
        if any(_parallel_long_work(source, c) for flow in whole_pipelines.pipelines_of(source) for c in flow.calls):
            yield call


def _parallel_long_work(source: Source, call: ast.Call) -> bool:
    """Whether a map requests parallel calls for work that is worth threads."""
    if (
        node_lookup.called_name(call) != "map"
        or not dataset_chains.is_operation(call)
        or not call.args
        or not _asks_for_parallel_calls(source, call)
    ):
        return False
    work = whole_pipelines.function_work(source, call.args[0], call)
    return work is not None and not work.python


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


def _asks_for_parallel_calls(source: Source, call: ast.Call) -> bool:
    asked = node_lookup.argument_value(call, "num_parallel_calls", 1)
    if asked is None:
        return False
    return name_bindings.qualified_name(source, asked).endswith(".AUTOTUNE") or (queries.int_at(source, asked) or 0) > 1
