"""A data set that copies its batches to the GPU ahead of the step, as its last operation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.transfer.small_copies import PageableCopies, TinyCopies, _evidence_places
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace

PREFETCH_NAME = "prefetch_to_device"
DEVICE = "/GPU:0"
# It has to be the last transformation: stages that Keras or a strategy adds behind it run on the CPU, and fail or copy
# the batches back. Keras adds a map to the data set if it is given class weights.
OBSTACLE_WORDS = (
    PREFETCH_NAME,
    "copy_to_device",
    "Strategy",
    "experimental_distribute_dataset",
    "class_weight",
    "tf.device",
)
ITERATING_FUNCTIONS = ("enumerate", "iter")
MAX_READER_DEPTH = 4  # names and functions between the data set and the loop
PREFETCH_TO_DEVICE = (
    'end the data set in .apply(tf.data.experimental.prefetch_to_device("/GPU:0")): it copies while the step runs'
)
DATASET_OF_ARRAYS = (
    'make a tf.data.Dataset of the arrays, and end it in prefetch_to_device("/GPU:0"): it copies while the step runs'
)
PREFETCH_IN_FIT = (
    "end the data set in prefetch_to_device: it copies while the step runs. Such a data set does not know its length: "
    "repeat() it and give fit steps_per_epoch, or Keras counts a step too many in each epoch"
)
MAP_BEFORE_BATCH = (
    "put a map directly in front of .batch(n): TensorFlow makes one operation of both (MapAndBatch), whose batches "
    "are in locked memory; those of batch alone, of cache and of arrays are not"
)


def find_cures(trace: Trace, finding: TinyCopies | PageableCopies) -> Iterable[Prescription]:
    if isinstance(finding, TinyCopies):
        yield Prescription("edit", Effect.EXACT, "stack inputs of one type into one tensor before they cross")
    elif trace.on_jax:
        yield Prescription("edit", Effect.EXACT, "jax.device_put the next batch while the step before it runs")
    else:
        yield _prefetch_cure(trace)
        if not _maps_into_batches(trace):
            yield Prescription("advice", Effect.EXACT, MAP_BEFORE_BATCH)


def prefetch_to_device(source: Source, line: int) -> list[Edit]:
    """``.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))`` at the end of the training data set.

    ``line`` holds the loop over it, the ``fit``, or one of its operations. A ``prefetch`` at the end stays in front of
    the new stage: it makes batches ahead in the host's memory, and the new stage copies them.
    No edits if the data set has other readers, or is built again in a loop: each new one traces its functions again.
    No edits for a ``fit`` without ``steps_per_epoch``.
    """
    if any(word in source.text for word in OBSTACLE_WORDS):
        return []
    found = list(_last_operations(source, line))
    last = found[0] if len(found) == 1 else None
    if last is None or _enclosing_loops(source, last) or _fit_needs_length(source, last):
        return []
    if not _is_read_by_training_only(source, last):
        return []
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    return [
        *also,
        *chain_edits.append_operation(source, last, f'.apply({tf}.data.experimental.{PREFETCH_NAME}("{DEVICE}"))'),
    ]


def _fit_needs_length(source: Source, last: ast.Call) -> bool:
    """Whether a ``fit`` without ``steps_per_epoch`` uses the data set.

    Such a data set does not know its length. Then Keras calls its function once more at each epoch's end. That call
    gets no batch, but counts in the optimizer's ``iterations``, which changes training with Adam and with schedules.
    """
    fits = [
        f
        for f in call_index.index_of(source).calls_of("fit")
        if node_lookup.argument_value(f, "steps_per_epoch") is None
    ]
    return any(last in f.calls for one in fits for f in _chains_of_fit(source, one))


def _last_operations(source: Source, line: int) -> Iterator[ast.Call]:
    """The last operations of training pipelines that have an operation, a loop or a ``fit`` at ``line``."""
    seen = set()
    for flow in whole_pipelines.training_chains(source):
        near = any(c.lineno <= line <= (c.end_lineno or c.lineno) for c in flow.calls)
        if (near or _trains_at_line(source, flow, line)) and flow.whole and id(flow.calls[-1]) not in seen:
            seen.add(id(flow.calls[-1]))
            yield flow.calls[-1]


def _trains_at_line(source: Source, flow: dataset_chains.DatasetChain, line: int) -> bool:
    places = [f for f in node_lookup.calls_at_line(source, line, "fit") if isinstance(f.func, ast.Attribute)]
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and n.lineno == line]
    taken = [f for one in places for f in _chains_of_fit(source, one)]
    taken += [f for one in loops for f in whole_pipelines.chains_behind(source, one.iter, one)]
    return any(flow.calls[-1] in f.calls for f in taken)


def _chains_of_fit(source: Source, fit: ast.Call) -> list[dataset_chains.DatasetChain]:
    return list(whole_pipelines.chains_behind(source, node_lookup.argument_value(fit, "x", 0), fit))


def _enclosing_loops(source: Source, node: ast.expr) -> list[ast.For | ast.While]:
    """The loops that evaluate ``node`` again in each iteration: not the one that iterates over it."""
    inside = (n for n in scope_names.enclosing_loops(source, node))
    return [n for n in inside if not (isinstance(n, ast.For) and node in syntax_tree.walk(n.iter))]


def _is_read_by_training_only(source: Source, node: ast.expr, depth: int = MAX_READER_DEPTH) -> bool:
    """Whether only loops and ``fit`` read the data set ``node``, under any name."""
    holder = node_lookup.parents_of(source).get(node)
    if isinstance(holder, ast.Return):
        function = node_lookup.enclosing_function(source, holder)
        calls = call_index.index_of(source).calls_of(function.name) if function is not None else []
        return len(calls) == 1 and depth > 0 and _is_read_by_training_only(source, calls[0], depth - 1)
    if not isinstance(holder, ast.Assign):
        return _is_iterated_or_fitted(source, node)
    target = holder.targets[0]
    if len(holder.targets) != 1 or not isinstance(target, ast.Name) or holder.value is not node or not depth:
        return False
    mine = node_lookup.enclosing_function(source, holder)
    others = (
        f
        for f in call_index.nodes_of_kind(source, *FUNCTION_NODES)
        if f is not mine and target.id in scope_names.read_names(f)
    )
    if any(mine is None or f in syntax_tree.walk(mine) for f in others):
        return False  # another function reads the name and may use it in any way
    body = scope_names.nodes_in_scope(scope_names.scope_body(scope_names.enclosing_scope(source, holder)))
    after = [
        n
        for n in body
        if isinstance(n, ast.Name) and n.id == target.id and edits.node_start(n) > edits.node_end(holder)
    ]
    loads = [n for n in after if isinstance(n.ctx, ast.Load)]
    return (
        bool(loads) and len(loads) == len(after) and all(_is_read_by_training_only(source, n, depth - 1) for n in loads)
    )


def _is_iterated_or_fitted(source: Source, node: ast.expr) -> bool:
    """Whether a loop iterates over the expression, or ``fit`` gets it as its data."""
    above = node_lookup.parents_of(source)
    holder = above.get(node)
    while (
        isinstance(holder, ast.Call)
        and node_lookup.called_name(holder) in ITERATING_FUNCTIONS
        and holder.args[:1] == [node]
    ):
        node, holder = holder, above.get(holder)
    if isinstance(holder, ast.For):
        return holder.iter is node
    named = isinstance(holder, ast.keyword) and holder.arg == "x"
    call = above.get(holder) if named and holder is not None else holder
    return isinstance(call, ast.Call) and node_lookup.called_name(call) == "fit" and (named or call.args[:1] == [node])


def _prefetch_cure(trace: Trace) -> Prescription:
    """Copies of the data set while the step runs, with the edit if the script shows that nothing else reads it."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit"]
    if any((e.data.get("data") or {}).get("type") == "numpy.ndarray" for e in fits):
        return Prescription("advice", Effect.EXACT, DATASET_OF_ARRAYS)
    changed = recorded_edits.first_applicable(trace, _evidence_places(trace), prefetch_to_device)
    if not changed and trace.steps.source == "fit":
        return Prescription("advice", Effect.EXACT, PREFETCH_IN_FIT)
    return Prescription("edit", Effect.EXACT, PREFETCH_TO_DEVICE, edits=changed)


def _maps_into_batches(trace: Trace) -> bool:
    """Whether the pipeline makes batches in locked memory, even if a later stage copies them elsewhere."""
    return trace.pipeline is not None and any(node.family == "MapAndBatch" for node in trace.pipeline.nodes)
