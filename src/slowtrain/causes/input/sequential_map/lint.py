"""Where the cause input/sequential-map shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index, imported_functions, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, map_work, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import staged

FEW = 64  # elements, assumed: of fewer, threads would have to be started for a single batch or two


def find_spots(source: Source) -> Iterable[Spot]:
    """A map of work that is worth a thread, one call at a time; once cached, or parallel further on, it is not."""
    seen: set[ast.Call] = set()
    for call in (
        call_index.index_of(source).called("map")
        if dataset_chains.may_make_dataset(source) or imported_functions.may_import_project_files(source)
        else ()
    ):
        given = node_lookup.argument_value(call, "num_parallel_calls", 1)
        if not dataset_chains.is_operation(call) or not call.args or not datasets.in_turn(source, call):
            continue
        flow = dataset_chains.upstream_chain(source, call)
        if whole_pipelines.BATCHING_OPERATIONS & set(flow.names) and "unbatch" not in flow.names:
            continue  # one whole batch is made while the step takes another
        if not flow.known or (element_sizes.max_elements(source, flow) or FEW) < FEW:
            continue
        work = map_work.function_work(source, call.args[0], call)
        if work is None or work.python:  # Python holds the interpreter's lock: threads would wait for each other
            continue
        if any(
            "cache" in (*flow.begun, *flow.names) or not flow.known
            for flow in dataset_chains.chains_through(source, call)
        ):
            continue
        line = edits.node_end(call.func)[0]
        effect = Effect.EQUIVALENT if repeatable_functions.may_vary_by_call(source, call.args[0]) else Effect.EXACT
        cure = Prescription(
            "edit",
            effect,
            "give map num_parallel_calls=tf.data.AUTOTUNE",
            edits=tuple(datasets.parallel(source, line)),
        )
        asked = "" if given is None or isinstance(given, ast.Constant) else f": {ast.unparse(given)} allows no more"
        seen.add(call)
        yield Spot(*call_index.operation_range(call), f"map does {work.says} for one element at a time{asked}", cure)
    for more in staged.beside(seen, staged.sequential(source)):
        made = tuple(datasets.parallel(source, edits.node_end(more.call.func)[0]))
        says = "give map num_parallel_calls=tf.data.AUTOTUNE"
        yield Spot(
            *call_index.operation_range(more.call), more.says, Prescription("edit", Effect.EXACT, says, edits=made)
        )
