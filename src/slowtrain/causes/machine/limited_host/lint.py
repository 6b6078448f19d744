"""Where the cause machine/limited-host shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.machine.limited_host import fix
from slowtrain.causes.machine.limited_host.fix import ALL_CORES_CURE
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text.source_file import Source

SHARED_POOL_FUNCTION = "set_inter_op_parallelism_threads"


def find_spots(source: Source) -> Iterable[Spot]:
    """Files that train with TensorFlow or data sets limited to one thread, or with the process on one core."""
    if not call_index.takes_training_steps(source):
        return
    shared_says = "the parallel maps of this file's data sets share one thread, however many cores there are"
    shared = [(call, shared_says, fix.thread_limit_edits) for call in shared_thread_limits(source)]
    for node, says, find_edits in (*fix.find_core_limits(source), *shared):
        prescription = Prescription("edit", Effect.EQUIVALENT, ALL_CORES_CURE, edits=find_edits(source))
        yield spots.node_spot(node, says, prescription)


def shared_thread_limits(source: Source) -> Iterator[ast.Call]:
    """Find settings of one inter-op thread in a file with a parallel map of long work."""
    for call in call_index.index_of(source).calls_of(SHARED_POOL_FUNCTION):
        given = node_lookup.argument_value(call, "num_threads", 0)
        if name_bindings.qualified_name(source, call.func) != f"tensorflow.config.threading.{SHARED_POOL_FUNCTION}":
            continue
        private = any(name in source.text for name in dataset_stages.POOL_SIZE_OPTIONS)
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
        or not dataset_stages.asks_for_parallel_calls(source, call)
    ):
        return False
    work = whole_pipelines.function_work(source, call.args[0], call)
    return work is not None and not work.python
