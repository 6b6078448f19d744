"""Where the cause input/sequential-map shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, node_lookup, project_files
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_ELEMENTS = 64  # assumed: of fewer, threads would be started for one or two batches
PARALLEL_CALLS = "give map num_parallel_calls=tf.data.AUTOTUNE"
# They release the interpreter lock while they decode.
UNLOCKED_DECODERS = frozenset({"cv2.imread", "cv2.imdecode"})


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps whose work is worth a thread and that run one call at a time, if nothing behind them caches."""
    yield from spots.distinct_spots((*sequential_calls(source), *sequential_stages(source)))


def sequential_calls(source: Source) -> Iterator[Spot]:
    """Find such calls of ``map`` in the text."""
    for call in _element_maps(source):
        work = whole_pipelines.function_work(source, call.args[0], call)
        if work is None or work.python:  # Python holds the interpreter's lock: threads would wait for each other
            continue
        chains = dataset_chains.chains_through(source, call)
        if any(not chain.is_known or "cache" in (*chain.begun, *chain.names) for chain in chains):
            continue
        effect = Effect.EQUIVALENT if repeatable_functions.may_vary_by_call(source, call.args[0]) else Effect.EXACT
        limit = node_lookup.argument_value(call, "num_parallel_calls", 1)
        limited = limit is not None and not isinstance(limit, ast.Constant)
        yield _parallel_map_spot(
            source, call, work.says, effect, f": {ast.unparse(limit)} allows no more" if limited and limit else ""
        )


def _element_maps(source: Source) -> Iterable[ast.Call]:
    """Calls of ``map`` on single elements, without parallel calls, of data sets that are not visibly small."""
    if not dataset_chains.may_make_dataset(source) and not project_files.may_import_project_files(source):
        return
    for call in call_index.index_of(source).calls_of("map"):
        if not dataset_chains.is_operation(call) or not call.args or not dataset_edits.is_sequential_map(source, call):
            continue
        chain = dataset_chains.upstream_chain(source, call)
        if whole_pipelines.BATCHING_OPERATIONS & set(chain.names) and "unbatch" not in chain.names:
            continue  # a map of whole batches makes the next one while the step runs
        if chain.is_known and (element_sizes.max_elements(source, chain) or MIN_ELEMENTS) >= MIN_ELEMENTS:
            yield call


def _parallel_map_spot(source: Source, call: ast.Call, does: str, effect: Effect, limit: str = "") -> Spot:
    made = tuple(dataset_edits.parallelise_map(source, edits.node_end(call.func)[0]))
    says = f"map does {does} for one element at a time{limit}"
    return spots.operation_spot(call, says, Prescription("edit", effect, PARALLEL_CALLS, edits=made))


def sequential_stages(source: Source) -> Iterator[Spot]:
    """Find such maps in the data sets that the interpreter runs."""
    several = interpreted_datasets.datasets_of(source) if ".map" in source.text else ()
    parallel = {stage.given.node for one in several for stage in one.stages if not _runs_sequentially(stage)}
    for data, at, call in dataset_stages.training_stages(source, "map"):
        if "cache" in data.names or not dataset_stages.may_have_many_rows(data.stages) or call in parallel:
            continue
        # The step hides one map of whole batches.
        if any(interpreted_datasets.gives_batches(data.stages[:n]) for n in range(1, at + 1)):
            continue
        stage = data.stages[at]
        does = dataset_stages.first_long_op(stage, whole_pipelines.COSTLY_PREFIXES) or _unlocked_decoder(stage)
        if does is not None:
            yield _parallel_map_spot(source, call, does, Effect.EXACT)


def _runs_sequentially(stage: Stage) -> bool:
    asked = stage.given.get("num_parallel_calls", 1)
    return len(stage.given.every) == 1 or asked.kind == "none" or asked.known == 1


def _unlocked_decoder(stage: Stage) -> str | None:
    """Return the C decoder that Python calls, if nothing is random. Several threads can run it at once."""
    names = [one.name for one in stage.does]
    drawn = any(name.startswith(("numpy.random", "random.")) for name in names)
    return next((name for name in names if name in UNLOCKED_DECODERS), None) if not drawn else None
