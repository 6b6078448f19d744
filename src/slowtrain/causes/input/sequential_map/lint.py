"""Where the cause input/sequential-map shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import dataset_stages
from slowtrain.script.navigation import call_index, node_lookup, project_files
from slowtrain.script.pipelines import dataset_chains, element_sizes, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_ELEMENTS = 64  # assumed: of fewer, threads would be started for one or two batches
PARALLEL_CALLS = "give map num_parallel_calls=tf.data.AUTOTUNE"


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps whose work is worth a thread and that run one call at a time, if nothing behind them caches."""
    seen: set[ast.Call] = set()
    for call in _sequential_calls(source):
        work = whole_pipelines.function_work(source, call.args[0], call)
        if work is None or work.python:  # Python holds the interpreter's lock: threads would wait for each other
            continue
        if any(
            not chain.known or "cache" in (*chain.begun, *chain.names)
            for chain in dataset_chains.chains_through(source, call)
        ):
            continue
        effect = Effect.EQUIVALENT if repeatable_functions.may_vary_by_call(source, call.args[0]) else Effect.EXACT
        limit = node_lookup.argument_value(call, "num_parallel_calls", 1)
        limit_text = (
            "" if limit is None or isinstance(limit, ast.Constant) else f": {ast.unparse(limit)} allows no more"
        )
        seen.add(call)
        yield _parallel_map_spot(source, call, f"map does {work.says} for one element at a time{limit_text}", effect)
    for more in dataset_stages.stages_not_known(seen, dataset_stages.sequential_maps(source)):
        yield _parallel_map_spot(source, more.call, more.says, Effect.EXACT)


def _sequential_calls(source: Source) -> Iterable[ast.Call]:
    """Calls of ``map`` on single elements, without parallel calls, of data sets that are not visibly small."""
    if not dataset_chains.may_make_dataset(source) and not project_files.may_import_project_files(source):
        return
    for call in call_index.index_of(source).called("map"):
        if not dataset_chains.is_operation(call) or not call.args or not dataset_edits.is_sequential_map(source, call):
            continue
        chain = dataset_chains.upstream_chain(source, call)
        if whole_pipelines.BATCHING_OPERATIONS & set(chain.names) and "unbatch" not in chain.names:
            continue  # a map of whole batches makes the next one while the step runs
        if chain.known and (element_sizes.max_elements(source, chain) or MIN_ELEMENTS) >= MIN_ELEMENTS:
            yield call


def _parallel_map_spot(source: Source, call: ast.Call, says: str, effect: Effect) -> Spot:
    made = tuple(dataset_edits.parallelise_map(source, edits.node_end(call.func)[0]))
    return Spot(*call_index.operation_range(call), says, Prescription("edit", effect, PARALLEL_CALLS, edits=made))
