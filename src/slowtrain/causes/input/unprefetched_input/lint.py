"""Where the cause input/unprefetched-input shows in a script's text."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import background_batches, dataset_edits
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, Source

MIN_BATCHES = 10  # assumed: training on fewer is a trial
PARALLEL = "num_parallel_calls"
PREFETCH_CURE = "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
NOTHING_AHEAD = "nothing makes the next batch while the step runs"
THREAD_NAMES = frozenset({"ThreadPoolExecutor", "ProcessPoolExecutor", "Thread", "Process", "Pool", "submit", "Queue"})
OPENING_FUNCTIONS = FILE_READERS - {"load", "get", "File", "read"}


def find_spots(source: Source) -> Iterable[Spot]:
    """Training pipelines with work in them and no stage at the end that works ahead.

    Also loops of steps that read each batch from a file themselves.
    """
    yield from blocking_reads(source)
    yield from spots.distinct_spots((*unprefetched_chains(source), *unprefetched_datasets(source)))


def unprefetched_chains(source: Source) -> Iterator[Spot]:
    """Find such pipelines in the text."""
    for flow in dict.fromkeys(whole_pipelines.training_chains(source)):
        names = (*flow.begun, *flow.names)
        if not _is_unprefetched(names, "prefetch", "cache"):  # only the cached elements are cut into batches
            continue
        if _ends_in_parallel_work(
            [(node_lookup.called_name(c), node_lookup.argument_value(c, PARALLEL)) for c in flow.calls]
        ):
            continue
        if (element_sizes.max_elements(source, flow) or MIN_BATCHES) < MIN_BATCHES:
            continue
        if flow.calls:
            yield _last_stage_spot(source, flow.calls[-1])
        elif flow.entry is not None:  # a function of another file makes it; its batches can be prefetched here
            text, also = dataset_edits.autotune_reference(source)
            made = (*also, *edits.append_to_chain(source, flow.entry, f".prefetch({text})"))
            says = f"the pipeline that this makes ends in {flow.begun[-1]}: {NOTHING_AHEAD}"
            yield spots.node_spot(flow.entry, says, Prescription("edit", Effect.EXACT, PREFETCH_CURE, edits=made))


def _is_unprefetched(names: Sequence[str], *ahead: str) -> bool:
    """Whether there is work, and none of the operations ``ahead`` after it."""
    working = [at for at, name in enumerate(names) if name in whole_pipelines.WORKING_OPERATIONS]
    return bool(working) and not {*ahead} & set(names[working[-1] :])


def _ends_in_parallel_work(stages: Sequence[tuple[str, object | None]]) -> bool:
    """Whether threads of the last stage that works make whole batches ahead. ``stages``: names, and their threads."""
    working = [at for at, (name, _) in enumerate(stages) if name in whole_pipelines.WORKING_OPERATIONS]
    if not working or stages[working[-1]][1] is None:
        return False
    return "batch" not in [name for name, _ in stages[working[-1] :]]


def _last_stage_spot(source: Source, call: ast.Call) -> Spot:
    made = tuple(dataset_edits.add_prefetch(source, edits.node_end(call.func)[0]))
    says = f"the pipeline ends in {node_lookup.called_name(call)}: {NOTHING_AHEAD}"
    return spots.operation_spot(call, says, Prescription("edit", Effect.EXACT, PREFETCH_CURE, edits=made))


def unprefetched_datasets(source: Source) -> Iterator[Spot]:
    """Find such data sets, as the interpreter runs them."""
    for data in interpreted_datasets.datasets_of(source):
        call = interpreted_datasets.stage_call(source, data.stages[-1])
        many = dataset_stages.may_have_many_rows(data.stages)
        ahead = _ends_in_parallel_work([(one.name, one.given.keywords.get(PARALLEL)) for one in data.stages])
        if call is not None and many and not ahead and _is_unprefetched(data.names, "prefetch", "cache", "apply"):
            yield _last_stage_spot(source, call)


def blocking_reads(source: Source) -> Iterator[Spot]:
    """Find training loops that wait for a file or server in each iteration, without prefetching."""
    for steps in step_loops.step_loops_of(source):
        over = steps.loop.iter if isinstance(steps.loop, ast.For) else None
        if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "tqdm") and over.args:
            over = over.args[0]
        made = node_lookup.function_called_by_name(source, over) if over is not None else None
        if made is not None and over is not None and syntax_tree.nodes_inside(made, ast.Yield):
            inner = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, made))
            opened = [c for c in inner if _opens_file(source, c)]
            threads = THREAD_NAMES & {node_lookup.called_name(c) for c in inner}
            if opened and not threads and _opens_per_batch(source, opened, made):
                yield _blocking_spot(source, over, f"{made.name}() reads the next batch only after the step")
        else:
            for rows in itertools.islice(_hdf5_row_reads(source, steps), 1):
                yield _blocking_spot(source, rows, "this batch is read from an HDF5 file only after the step before it")


def _blocking_spot(source: Source, node: ast.expr, says: str) -> Spot:
    made = tuple(background_batches.prefetch_in_thread(source, node.lineno))
    cure = "make the next batch in a background thread while the step runs"
    whole = f"{says}: nothing reads ahead while the step runs"
    return spots.node_spot(node, whole, Prescription("edit", Effect.EXACT, cure, edits=made))


def _opens_file(source: Source, call: ast.Call) -> bool:
    whole = name_bindings.qualified_name(source, call.func)
    if node_lookup.called_name(call) == "open":
        return isinstance(call.func, ast.Name) or whole in ("os.open", "PIL.Image.open", "gzip.open", "io.open")
    return node_lookup.called_name(call) in OPENING_FUNCTIONS or whole in ("numpy.load", "requests.get")


def _opens_per_batch(source: Source, opened: list[ast.Call], made: ast.FunctionDef) -> bool:
    """Whether a file is opened for each batch, and not only once."""
    if any(scope_names.enclosing_loops(source, c) for c in opened):
        return True
    calls = whole_pipelines.calls_in(whole_pipelines.live_statements(made))
    looped = (c for c in calls if scope_names.enclosing_loops(source, c))
    reached = {node_lookup.function_named(source, node_lookup.called_name(c), c) for c in looped}
    return any(node_lookup.enclosing_function(source, c) in reached for c in opened)


def _hdf5_row_reads(source: Source, steps: step_loops.StepLoop) -> Iterator[ast.expr]:
    """Yield rows of an HDF5 data set that the loop reads for a step."""
    for node in syntax_tree.nodes_inside(step_loops.statements_per_turn(steps.loop), ast.Subscript):
        match node:
            case ast.Subscript(ctx=ast.Load(), value=ast.Name() as name) if _is_hdf5_dataset(source, name):
                yield node


def _is_hdf5_dataset(source: Source, name: ast.Name) -> bool:
    """Whether ``x`` comes from ``x = file["x"]`` of an ``h5py.File`` in the same scope."""
    match name_bindings.single_assignment(source, name):
        case ast.Subscript(value=ast.Name() as file, slice=ast.Constant(value=str())) as value:
            opened = dataset_chains.last_assignment(source, file, value)
            return isinstance(opened, ast.Call) and name_bindings.qualified_name(source, opened.func) == "h5py.File"
    return False
