"""Leaves out XLA or the last batch, and makes a Python loop a loop of the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.causes.startup.slow_startup import StartFinding, XlaPrice, first_training
from slowtrain.causes.startup.slow_startup.avoidable_starts import AvoidableKind, AvoidableStart
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.locations import source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace
from slowtrain.trace.run_division import step_disturbances

LOOP_IN_GRAPH = "let the graph loop itself: for _ in tf.range(n)"
COLLECTING_METHODS = frozenset({"append", "extend", "insert", "add", "update", "pop"})  # run once in a graph's loop
LEAVING_STATEMENTS = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.Await)
# The position of ``drop_remainder`` among the arguments of each operation.
REMAINDER_POSITIONS = {"batch": 1, "padded_batch": 3, "ragged_batch": 1}
ENDLESS_STAGES = ("repeat", "random", "counter")  # before the batch: there is no last one
VALIDATION_METHODS = ("evaluate", "predict")  # a batch that is left out there changes the result
AUTOTUNE_CACHE_SINCE = (2, 17)  # an older TensorFlow ends the process at an XLA flag that it does not know


def find_cures(trace: Trace, finding: StartFinding) -> Iterable[Prescription]:
    kind, places, last_batch = finding.worst.kind, finding.worst.places, finding.last_batch
    if kind is AvoidableKind.XLA and finding.xla is not None:
        yield from _leave_out_cures(trace, finding.xla.price, places)
        if last_batch is not None:
            yield from _one_batch_size_cures(trace, last_batch, last_batch.places)
    elif kind is AvoidableKind.LAST_BATCH and last_batch is not None:
        yield from _one_batch_size_cures(trace, last_batch, places)
    elif kind in (AvoidableKind.LAYER, AvoidableKind.STEPS):
        yield _loop_cure(trace, places, are_steps=kind is AvoidableKind.STEPS)
    elif kind is AvoidableKind.SHAPES:
        yield Prescription("advice", Effect.EQUIVALENT, "trace it once, with None for the sizes that change")
    else:
        once = "build the model once; to keep its states, keep get_weights()"
        yield Prescription("edit", Effect.EXACT, once)


def find_lines(trace: Trace, finding: StartFinding) -> Iterable[Place]:
    """Lines with the True of ``unroll=True``, then unrolled loops, if the graph does not say which lines they are."""
    unrolled = source_places.project_places(trace, _unroll_lines)
    event = first_training(trace)
    if any(event is None or place != event.place for place in finding.worst.places):
        return unrolled
    return (*unrolled, *source_places.project_places(trace, _unrolled_loop_lines))


def _unroll_lines(source: Source) -> Iterable[int]:
    return (true.lineno for _, true in keras_calls.unrolled_calls(source))


def _unrolled_loop_lines(source: Source) -> Iterable[int]:
    return (loop.lineno for loop, _ in graph_code.unrolled_graph_loops(source, chained=True))


def most_unrolled_iterations(trace: Trace, files: Iterable[str]) -> int:
    """Of a loop in these files that a graph unrolls, and whose iterations continue each other; 0 without one."""
    sources = [source for file in files if (source := recorded_source(trace, file)) is not None]
    loops = (found for source in sources for found in graph_code.unrolled_graph_loops(source, chained=True))
    return max((iterations for _, iterations in loops), default=0)


def _loop_cure(trace: Trace, places: Sequence[Place], *, are_steps: bool) -> Prescription:
    """Puts one iteration into the graph in place of all. ``are_steps``: each iteration is a whole training step."""
    looped = recorded_edits.first_applicable(trace, places, loop_in_graph)
    if looped or are_steps:
        return Prescription("edit", Effect.EQUIVALENT, LOOP_IN_GRAPH, edits=looped)
    says = "leave out unroll=True, or write the repetition as an RNN layer or tf.scan"
    return Prescription(
        "edit",
        Effect.EQUIVALENT,
        says,
        edits=recorded_edits.first_applicable(trace, places, keras_calls.disable_unroll),
    )


def loop_in_graph(source: Source, line: int) -> list[Edit]:
    """Replaces ``for _ in range(n)`` at ``line`` by ``for _ in tf.range(n)`` if the body does not read the index."""
    short = scope_names.module_alias(source, "tensorflow")
    found = [n for n in call_index.nodes_of_class(source, ast.For) if n.lineno == line]
    over = found[0].iter if len(found) == 1 and short else None
    if not isinstance(over, ast.Call) or scope_names.dotted_name(over.func) != "range" or over.keywords:
        return []
    loop = found[0]
    if scope_names.bound_names(loop.target) & scope_names.read_names(loop.body) or not _passes_only_tensors(
        source, loop
    ):
        return []
    return [edits.replace_node(source, over.func, f"{short}.range")]


def _passes_only_tensors(source: Source, loop: ast.For) -> bool:
    """Whether iterations pass values on only by names that exist before the loop, and change no Python object."""
    function = node_lookup.enclosing_function(source, loop)
    if function is None or loop.orelse:
        return False
    for one in scope_names.nodes_in_scope(list(loop.body)):
        if isinstance(one, (*LEAVING_STATEMENTS, *FUNCTION_NODES)) or (
            isinstance(one, ast.Call) and node_lookup.called_name(one) in COLLECTING_METHODS
        ):
            return False
        if isinstance(one, (ast.Subscript, ast.Attribute)) and isinstance(one.ctx, ast.Store):
            return False
    inside = {id(n) for n in syntax_tree.walk(loop)}
    others = [
        n for n in scope_names.nodes_in_scope(list(function.body)) if isinstance(n, ast.Name) and id(n) not in inside
    ]
    ahead = [n for n in others if (n.lineno, n.col_offset) < (loop.lineno, loop.col_offset)]
    before = {n.id for n in ahead if isinstance(n.ctx, ast.Store)} | set(scope_names.parameter_names(function))
    after = {n.id for n in others if n not in ahead and isinstance(n.ctx, ast.Load)}
    return (
        not (scope_names.bound_names(list(loop.body)) & after) - before
        and not scope_names.bound_names(loop.target) & after
    )


def drop_remainder(source: Source, line: int) -> list[Edit]:
    """``drop_remainder=True`` on the ``.batch(n)`` that makes the training batches.

    ``line`` has the ``batch`` itself, the ``fit``, or the loop over the data set. Samples that do not fill a batch
    are left out of each epoch, which changes training. Empty if the data set also serves validation.
    """
    call = _batch_call(source, line)
    if call is None or any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return []
    before = dataset_chains.upstream_chain(source, call).names
    if any(name in ENDLESS_STAGES for name in before) or _serves_validation(source, call):
        return []
    given = node_lookup.argument_value(call, "drop_remainder", REMAINDER_POSITIONS[node_lookup.called_name(call)])
    if given is None:
        return [edits.set_keyword(source, call, "drop_remainder", "True")]
    if isinstance(given, ast.Constant) and given.value in (False, None):
        return [edits.replace_node(source, given, "True")]
    return []


def _batch_call(source: Source, line: int) -> ast.Call | None:
    """The one call that makes batches: at ``line``, or last on the way to the ``fit`` or the loop there."""
    here = [c for c in node_lookup.calls_at_line(source, line, *REMAINDER_POSITIONS) if dataset_chains.is_operation(c)]
    if len(here) == 1 and dataset_chains.may_be_dataset(dataset_chains.upstream_chain(source, here[0])):
        return here[0]
    given: list[tuple[ast.expr | None, ast.AST]] = []
    fit = node_lookup.single_call(source, line, "fit")
    if fit is not None:
        given.append((node_lookup.argument_value(fit, "x", 0), fit))
    given += [
        (n.iter, n) for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and n.lineno == line
    ]
    found = [flow for one, place in given for flow in whole_pipelines.chains_behind(source, one, place)]
    batches = [c for flow in found[:1] for c in flow.calls if node_lookup.called_name(c) in REMAINDER_POSITIONS]
    return batches[-1] if len(found) == 1 and batches else None


def _serves_validation(source: Source, call: ast.Call) -> bool:
    """Whether something that judges the model takes batches of ``call`` as well."""
    calls = call_index.index_of(source)
    taken = [(node_lookup.argument_value(fit, "validation_data"), fit) for fit in calls.calls_of("fit")]
    taken += [(node_lookup.argument_value(judge, "x", 0), judge) for judge in calls.calls_of(*VALIDATION_METHODS)]
    if any(call in flow.calls for one, place in taken for flow in whole_pipelines.chains_behind(source, one, place)):
        return True
    function = node_lookup.enclosing_function(
        source, call
    )  # a function that makes several data sets may make one for validation
    return function is not None and len(call_index.index_of(source).calls_of(function.name)) > 1


def _leave_out_cures(trace: Trace, price: XlaPrice, places: Iterable[Place]) -> Iterator[Prescription]:
    """Leaves XLA out of this run, or keeps its results for the next ones."""
    edit = recorded_edits.first_applicable(trace, places, keras_calls.disable_xla)
    call = (
        "compile(..., jit_compile=False)" if trace.on_accelerator else "leave jit_compile=True out of runs this short"
    )
    yield Prescription("edit", Effect.EQUIVALENT, f"{call}: the run {price.says}", edits=edit)
    yield from cache_cures(trace)


def cache_cures(trace: Trace) -> Iterator[Prescription]:
    """Caches on the disk, which help from the second run on. Their saving is not measured."""
    cache = "TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER"
    says = f"{cache} keeps compiled programs for the next run of the same script (the saving is not measured)"
    yield Prescription("setting", Effect.EXACT, says)
    if not trace.on_accelerator:
        return
    version = tuple(int(n) for n in str(trace.facts.get("version.tensorflow") or "0").split(".")[:2] if n.isdigit())
    if version >= AUTOTUNE_CACHE_SINCE:
        cache = "XLA_FLAGS=--xla_gpu_per_fusion_autotune_cache_dir=FOLDER"
        says = f"{cache}, a folder that exists, keeps what autotuning chose (the saving is not measured)"
        yield Prescription("setting", Effect.EQUIVALENT, says)
    says = "XLA_FLAGS=--xla_gpu_autotune_level=0 leaves autotuning out; kernels may be slower (neither is measured)"
    yield Prescription("setting", Effect.EQUIVALENT, says)


def _one_batch_size_cures(trace: Trace, last_batch: AvoidableStart, places: Iterable[Place]) -> Iterator[Prescription]:
    """Leaves the last batch out."""
    saves = f"spares a compilation of {format_number(last_batch.ms / 1e3, 2)} s"
    left = "the last samples of each epoch are not trained on (another shuffle leaves out others)"
    edit = recorded_edits.first_applicable(trace, places, drop_remainder)
    says = f".batch(n, drop_remainder=True) {saves}; {left}"
    if not edit and not any(step_disturbances.uneven_batches(trace.events)):
        says = f"a number of samples that the batch size divides {saves}; {left}"
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edit)
