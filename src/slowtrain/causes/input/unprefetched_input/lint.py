"""Where the cause input/unprefetched-input shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import background_batches, dataset_edits
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import (
    dataset_chains,
    element_sizes,
    interpreted_datasets,
    training_pipelines,
    whole_pipelines,
)
from slowtrain.script.properties import handwritten_steps
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, Source

MIN_BATCHES = 10  # assumed: training on fewer is a trial
THREAD_NAMES = frozenset({"ThreadPoolExecutor", "ProcessPoolExecutor", "Thread", "Process", "Pool", "submit", "Queue"})
OPENING_FUNCTIONS = FILE_READERS - {"load", "get", "File", "read"}


def find_spots(source: Source) -> Iterable[Spot]:
    """Training pipelines with work in them and no stage at the end that works ahead.

    Also loops of steps that read each batch from a file themselves.
    """
    for fed in blocking_reads(source):
        says = "make the next batch in a background thread while the step runs"
        cure = Prescription("edit", Effect.EXACT, says, edits=fed.edits)
        yield spots.node_spot(fed.node, fed.says, cure)
    seen: set[ast.Call] = set()
    for flow in dict.fromkeys(training_pipelines.training_chains(source)):
        names = (*flow.begun, *flow.names)
        working = [n for n, name in enumerate(names) if name in training_pipelines.WORKING_OPERATIONS]
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
        yield spots.operation_spot(last, says, cure)
    for more in dataset_stages.stages_not_known(seen, unprefetched_datasets(source)):
        made = tuple(dataset_edits.add_prefetch(source, edits.node_end(more.call.func)[0]))
        cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
        yield spots.operation_spot(more.call, more.says, cure)


def _spots_of_imported_pipelines(source: Source, flow: dataset_chains.DatasetChain) -> Iterable[Spot]:
    """For a pipeline that a function of another file makes: its batches can be prefetched here."""
    if flow.entry is None:
        return
    text, also = dataset_edits.autotune_reference(source, flow.entry)
    made = (*also, *edits.append_to_chain(source, flow.entry, f".prefetch({text})"))
    cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
    says = f"the pipeline that this makes ends in {flow.begun[-1]}: nothing makes the next batch while the step runs"
    yield spots.node_spot(flow.entry, says, cure)


def unprefetched_datasets(source: Source) -> Iterator[dataset_stages.SlowStage]:
    """Find the last operations of data sets with work and without prefetching."""
    for one in interpreted_datasets.datasets_of(source):
        working = [at for at, name in enumerate(one.names) if name in training_pipelines.WORKING_OPERATIONS]
        if not working or {"prefetch", "cache", "apply"} & set(one.names[working[-1] :]):
            continue
        last = one.stages[-1]
        if (
            interpreted_datasets.row_count(one.stages) or dataset_stages.MIN_BUFFER_ELEMENTS
        ) >= dataset_stages.MIN_BUFFER_ELEMENTS and (call := interpreted_datasets.stage_call(source, last)) is not None:
            says = f"the pipeline ends in {last.name}: nothing makes the next batch while the step runs"
            yield dataset_stages.SlowStage(call, says)


def blocking_reads(source: Source) -> Iterator[spots.HandFedBatch]:
    """Find training loops that wait for a file or server in each iteration, without prefetching."""
    for steps in handwritten_steps.step_loops_of(source):
        loop = steps.loop
        over = loop.iter if isinstance(loop, ast.For) else None
        if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "tqdm") and over.args:
            over = over.args[0]
        made = node_lookup.function_called_by_name(source, over) if over is not None else None
        if made is not None and over is not None and any(isinstance(n, ast.Yield) for n in syntax_tree.walk(made)):
            inner = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, made))
            names = {node_lookup.called_name(c) for c in inner}
            opened = [c for c in inner if _opens_file(source, c)]
            if opened and not names & THREAD_NAMES and _opens_per_batch(source, opened, made):
                yield _read_with_edit(source, over, f"{made.name}() reads the next batch only after the step")
            continue
        rows = next(iter(_hdf5_row_reads(source, steps)), None)
        if rows is not None:
            yield _read_with_edit(source, rows, "this batch is read from an HDF5 file only after the step before it")


def _read_with_edit(source: Source, node: ast.expr, says: str) -> spots.HandFedBatch:
    return spots.HandFedBatch(
        node,
        f"{says}: nothing reads ahead while the step runs",
        tuple(background_batches.prefetch_in_thread(source, node.lineno)),
    )


def _opens_file(source: Source, call: ast.Call) -> bool:
    whole = name_bindings.qualified_name(source, call.func)
    if node_lookup.called_name(call) == "open":
        return isinstance(call.func, ast.Name) or whole in ("os.open", "PIL.Image.open", "gzip.open", "io.open")
    return node_lookup.called_name(call) in OPENING_FUNCTIONS or whole in ("numpy.load", "requests.get")


def _opens_per_batch(source: Source, opened: list[ast.Call], made: ast.FunctionDef) -> bool:
    """Whether a file is opened for each batch, and not only once."""
    inside = [c for c in opened if scope_names.enclosing_loops(source, c)]
    called = [
        c
        for c in whole_pipelines.calls_in(whole_pipelines.live_statements(made))
        if scope_names.enclosing_loops(source, c)
    ]
    reached = {node_lookup.function_named(source, node_lookup.called_name(c), c) for c in called}
    return bool(inside) or any(node_lookup.enclosing_function(source, c) in reached for c in opened)


def _hdf5_row_reads(source: Source, steps: handwritten_steps.StepLoop) -> Iterator[ast.expr]:
    """Yield rows of an HDF5 data set that the loop reads for a step."""
    for one in handwritten_steps.statements_per_turn(steps.loop):
        for node in syntax_tree.walk(one):
            if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and _is_hdf5_dataset(source, node.value):
                yield node


def _is_hdf5_dataset(source: Source, name: ast.Name) -> bool:
    """Whether ``x`` comes from ``x = file["x"]`` of an ``h5py.File`` in the same scope."""
    value = name_bindings.single_assignment(source, name)
    if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name):
        return False
    if not isinstance(value.slice, ast.Constant) or not isinstance(value.slice.value, str):
        return False
    opened = dataset_chains.last_assignment(source, value.value, value)
    return isinstance(opened, ast.Call) and name_bindings.qualified_name(source, opened.func) == "h5py.File"
