"""A data set that copies its batches to the GPU ahead of the step, as its last operation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains, training_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

WORD = "prefetch_to_device"
DEVICE = "/GPU:0"
# It has to be the last transformation: what Keras or a strategy adds behind it runs on the CPU again, and fails or
# copies the batches back. Keras maps over the data set where it is given class weights.
BESIDE = (WORD, "copy_to_device", "Strategy", "experimental_distribute_dataset", "class_weight", "tf.device")
THROUGH = ("enumerate", "iter")
DEEPEST = 4  # names and functions between the data set and the loop


def prefetched_to_device(source: Source, line: int) -> list[Edit]:
    """``.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))`` at the end of the training data set.

    ``line`` holds the loop over it, the ``fit``, or one of its operations. A ``prefetch`` that is the last stage stays
    in front of it: it makes batches ahead in the host's memory, and the new stage copies them.
    Nothing where the data set has other readers, or is made anew in a loop: each one made traces functions of its own.
    Nothing for a ``fit`` that is not told how many steps an epoch has.
    """
    if any(word in source.text for word in BESIDE):
        return []
    found = list(_ends(source, line))
    last = found[0] if len(found) == 1 else None
    if last is None or _turns_around(source, last) or _length_unknown(source, last):
        return []
    if not _read_by_training(source, last):
        return []
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    return [*also, *chain_edits.append_operation(source, last, f'.apply({tf}.data.experimental.{WORD}("{DEVICE}"))')]


def _length_unknown(source: Source, last: ast.Call) -> bool:
    """Whether a ``fit`` would take the data set without being told how many steps an epoch has.

    Such a data set does not tell its length. Then Keras calls its function once more at each epoch's end, which finds
    no batch, but counts in the optimizer's ``iterations``: with Adam and with schedules another training.
    """
    fits = [
        f for f in call_index.index_of(source).called("fit") if node_lookup.argument_value(f, "steps_per_epoch") is None
    ]
    return any(last in f.calls for one in fits for f in _taken(source, one))


def _ends(source: Source, line: int) -> Iterator[ast.Call]:
    """The last operations of the pipelines that training takes batches from, of those that have to do with ``line``."""
    seen = set()
    for flow in training_pipelines.training_chains(source):
        near = any(c.lineno <= line <= (c.end_lineno or c.lineno) for c in flow.calls)
        if (near or _taken_at(source, flow, line)) and flow.whole and id(flow.calls[-1]) not in seen:
            seen.add(id(flow.calls[-1]))
            yield flow.calls[-1]


def _taken_at(source: Source, flow: dataset_chains.DatasetChain, line: int) -> bool:
    places = [f for f in node_lookup.calls_at_line(source, line, "fit") if isinstance(f.func, ast.Attribute)]
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and n.lineno == line]
    taken = [f for one in places for f in _taken(source, one)]
    taken += [f for one in loops for f in training_pipelines.chains_behind(source, one.iter, one)]
    return any(flow.calls[-1] in f.calls for f in taken)


def _taken(source: Source, fit: ast.Call) -> list[dataset_chains.DatasetChain]:
    return list(training_pipelines.chains_behind(source, node_lookup.argument_value(fit, "x", 0), fit))


def _turns_around(source: Source, node: ast.expr) -> list[ast.For | ast.While]:
    """The loops in whose turns ``node`` is evaluated again: not the one that goes through it."""
    inside = (n for n in scope_names.enclosing_loops(source, node))
    return [n for n in inside if not (isinstance(n, ast.For) and node in syntax_tree.walk(n.iter))]


def _read_by_training(source: Source, node: ast.expr, depth: int = DEEPEST) -> bool:
    """Whether the data set ``node`` is only gone through, by loops or by ``fit``, whatever name it has there."""
    holder = node_lookup.parents_of(source).get(node)
    if isinstance(holder, ast.Return):
        function = node_lookup.enclosing_function(source, holder)
        calls = call_index.index_of(source).called(function.name) if function is not None else []
        return len(calls) == 1 and depth > 0 and _read_by_training(source, calls[0], depth - 1)
    if not isinstance(holder, ast.Assign):
        return _goes_through(source, node)
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
        return False  # a function that reads the name may do anything with it
    body = scope_names.nodes_in_scope(scope_names.scope_body(scope_names.enclosing_scope(source, holder)))
    after = [
        n
        for n in body
        if isinstance(n, ast.Name) and n.id == target.id and edits.node_start(n) > edits.node_end(holder)
    ]
    loads = [n for n in after if isinstance(n.ctx, ast.Load)]
    return bool(loads) and len(loads) == len(after) and all(_read_by_training(source, n, depth - 1) for n in loads)


def _goes_through(source: Source, node: ast.expr) -> bool:
    """Whether an expression is what a loop goes through, or the data of ``fit``."""
    above = node_lookup.parents_of(source)
    holder = above.get(node)
    while isinstance(holder, ast.Call) and node_lookup.called_name(holder) in THROUGH and holder.args[:1] == [node]:
        node, holder = holder, above.get(holder)
    if isinstance(holder, ast.For):
        return holder.iter is node
    named = isinstance(holder, ast.keyword) and holder.arg == "x"
    call = above.get(holder) if named and holder is not None else holder
    return isinstance(call, ast.Call) and node_lookup.called_name(call) == "fit" and (named or call.args[:1] == [node])
