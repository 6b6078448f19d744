"""Where the cause input/unprefetched-input shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import dataset_stages, hand_fed_batches
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, whole_pipelines
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_BATCHES = 10  # assumed: training on fewer is a trial


def find_spots(source: Source) -> Iterable[Spot]:
    """Training pipelines with work in them and no stage at the end that works ahead.

    Also loops of steps that read each batch from a file themselves.
    """
    for fed in hand_fed_batches.blocking_reads(source):
        says = "make the next batch in a background thread while the step runs"
        cure = Prescription("edit", Effect.EXACT, says, edits=fed.edits)
        yield Spot(edits.node_start(fed.node), edits.node_end(fed.node), fed.says, cure)
    seen: set[ast.Call] = set()
    for flow in dict.fromkeys(whole_pipelines.training_chains(source)):
        names = (*flow.begun, *flow.names)
        working = [n for n, name in enumerate(names) if name in whole_pipelines.WORKING_OPERATIONS]
        behind = {"prefetch", "cache"} & set(names[working[-1] :]) if working else ()
        if (element_sizes.max_elements(source, flow) or MIN_BATCHES) < MIN_BATCHES:
            continue
        if not working or behind:  # only the cached elements are cut into batches
            continue
        if not flow.calls:
            yield from _spots_of_imported_pipelines(source, flow)
            continue
        last = flow.calls[-1]
        made = tuple(dataset_edits.add_prefetch(source, edits.node_end(last.func)[0]))
        cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
        says = f"the pipeline ends in {node_lookup.called_name(last)}: nothing makes the next batch while the step runs"
        seen.add(last)
        yield Spot(*call_index.operation_range(last), says, cure)
    for more in dataset_stages.stages_not_known(seen, dataset_stages.unprefetched_datasets(source)):
        made = tuple(dataset_edits.add_prefetch(source, edits.node_end(more.call.func)[0]))
        cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
        yield Spot(*call_index.operation_range(more.call), more.says, cure)


def _spots_of_imported_pipelines(source: Source, flow: dataset_chains.DatasetChain) -> Iterable[Spot]:
    """For a pipeline that a function of another file makes: its batches can be prefetched here."""
    if flow.entry is None:
        return
    text, also = dataset_edits.autotune_reference(source)
    made = (*also, *edits.append_to_chain(source, flow.entry, f".prefetch({text})"))
    cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
    says = f"the pipeline that this makes ends in {flow.begun[-1]}: nothing makes the next batch while the step runs"
    yield Spot(edits.node_start(flow.entry), edits.node_end(flow.entry), says, cure)
