"""Finds the cause host/miscounted-steps in a script's text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from slowtrain.causes.host.miscounted_steps.fix import COUNT_BATCHES, REMOVE_REPEAT, is_quotient, smaller_batch_size
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import epoch_steps
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
    setting_origins,
)
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

EPOCH_NAME = re.compile(r"epoch", re.IGNORECASE)
DATASET_OPERATIONS = frozenset({"batch", "padded_batch", "map", "prefetch", "shuffle"})  # arrays have a repeat() too
RANGE_FUNCTIONS = frozenset({"range", "trange"})


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps counted in samples, and data sets that repeat themselves for the epochs of ``fit``."""
    known = []
    for call, given, says in epoch_steps.steps_in_samples(source):
        changed = tuple(epoch_steps.count_steps_in_batches(source, call.lineno))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, COUNT_BATCHES, edits=changed)
        known.append(spots.node_spot(given, says, cure))
    for call, says in doubly_repeated_datasets(source):
        changed = tuple(epoch_steps.remove_repeat(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, REMOVE_REPEAT, edits=changed)
        known.append(spots.operation_spot(call, says, cure))
    yield from known or miscounted_epochs(source)


def doubly_repeated_datasets(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find ``repeat(n)`` of a data set that ``fit``, or a loop, iterates over for n epochs again."""
    repeats = [c for c in call_index.index_of(source).calls_of("repeat") if isinstance(c.func, ast.Attribute)]
    passes = list(_repeated_passes(source)) if repeats else []
    for call in repeats:
        count = node_lookup.argument_value(call, "count", 0)
        for data, place, epochs in passes if count is not None else ():
            same = count is not None and _is_same_count(source, count, epochs)
            if count is not None and same and _is_repeated_dataset(source, call, data, place):
                what = "of fit()" if isinstance(place, ast.Call) else "of the loop around"
                yield call, f"the data set repeats itself {ast.unparse(count)} times in each epoch {what}"
                break


def _repeated_passes(source: Source) -> Iterator[tuple[ast.expr, ast.Call | ast.For, ast.expr]]:
    """Yield the data that is iterated completely several times, the place, and the expression of the count."""
    for fit in call_index.index_of(source).calls_of("fit"):
        epochs = node_lookup.argument_value(fit, "epochs", 3)
        for name, steps in (("x", "steps_per_epoch"), ("validation_data", "validation_steps")):
            data = node_lookup.argument_value(fit, name, 0 if name == "x" else None)
            if epochs is None or data is None or queries.int_at(source, epochs) == 1:
                continue
            if node_lookup.argument_value(fit, steps) is None:
                yield data, fit, epochs
    for loop in call_index.nodes_of_class(source, ast.For):
        outer = scope_names.enclosing_loops(source, loop)
        over = outer[0].iter if outer and isinstance(outer[0], ast.For) else None
        if not isinstance(over, ast.Call) or node_lookup.called_name(over) not in RANGE_FUNCTIONS or not over.args:
            continue
        if not any(isinstance(n, (ast.Break, ast.Return)) for n in scope_names.nodes_in_scope(list(loop.body))):
            yield loop.iter, loop, over.args[-1 if len(over.args) < 3 else 1]


def _is_same_count(source: Source, count: ast.expr, epochs: ast.expr) -> bool:
    """Whether both expressions are the same number of epochs."""
    if _epoch_names(count) & _epoch_names(epochs):
        return True
    if isinstance(count, ast.Constant) or isinstance(epochs, ast.Constant):
        first, second = queries.int_at(source, count), queries.int_at(source, epochs)
        return first is not None and first > 1 and first == second
    written = setting_origins.value_origin(source, count), setting_origins.value_origin(source, epochs)
    if written[0] is not None and written[1] is not None and written[0].node is written[1].node:
        return queries.int_at(source, count) != 1 and not isinstance(written[0].node, ast.Call)
    named = isinstance(count, ast.Name) and isinstance(epochs, ast.Name) and count.id == epochs.id
    scope = name_bindings.binding_scope
    if named and scope(source, count, count.id) is scope(source, epochs, count.id):  # type: ignore[attr-defined]
        return queries.int_at(source, count) != 1
    known = queries.int_at(source, count)
    return known is not None and known > 1 and known == queries.int_at(source, epochs)


def _epoch_names(node: ast.expr) -> set[str]:
    """Return names in an expression that count epochs."""
    found: set[str] = set()
    for part in syntax_tree.walk(node):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                found.add(name)
    return {name for name in found if EPOCH_NAME.search(name)}


def _is_repeated_dataset(source: Source, repeat: ast.Call, data: ast.expr | None, place: ast.AST) -> bool:
    """Whether the repeated data set is the one iterated at ``place``."""
    for _ in range(epoch_steps.MAX_DEPTH):
        match data:
            case ast.Name():
                last = dataset_chains.last_assignment(source, data, place)
                data = last or dataset_chains.parameter_argument(source, data)
                place = data or place
            case ast.Attribute():
                data = setting_origins.written_value(source, data)
            case ast.Call(args=[first, *_]) if node_lookup.called_name(data) in whole_pipelines.TRANSPARENT_CALLS:
                data = first
    if not isinstance(data, ast.Call):
        return False
    flow = dataset_chains.upstream_chain(source, data)
    if not flow.is_known and not DATASET_OPERATIONS & set(flow.names):
        return False
    made = _repeating_function(source, repeat, data)
    return not _is_left_out(source, repeat, *made) if made is not None else repeat in flow.calls


def _repeating_function(source: Source, repeat: ast.Call, data: ast.Call) -> tuple[ast.FunctionDef, ast.Call] | None:
    """Return the function that contains ``repeat``, and its call at the root of the chain ``data``."""
    root = list(node_lookup.chain_calls(data))[-1]
    for call in (data, root):
        made = node_lookup.function_named(source, node_lookup.called_name(call), call)
        if made is not None and node_lookup.enclosing_function(source, repeat) is made:
            return made, call
    return None


def _is_left_out(source: Source, repeat: ast.Call, made: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether it is under ``if training:`` and this call does not pass True."""
    given = None
    match node_lookup.enclosing_node(source, repeat, ast.If, ast.IfExp):
        case None:
            return False
        case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
            given = call_arguments.argument_in(made, call, name) or class_members.parameter_defaults(made).get(name)
    return not (isinstance(given, ast.Constant) and given.value is True)


def _counts_dataset_rows(source: Source, event: Event, steps: Value, data: Value) -> bool:
    """Whether the number of steps is the length of the source of the data set."""
    if not data.stages or data.stages[0].name != "from_tensor_slices" or data.data.get("rows") is not None:
        return False
    cut = [
        one for given in data.stages[0].given.every for one in given.nested_values(2) if one.kind in ("array", "list")
    ]
    written = node_lookup.argument_value(event.node, "steps_per_epoch") if isinstance(event.node, ast.Call) else None
    counted = [one.given.get("", 0) for one in file_events(source) if one.name == "len" and one.result is steps]
    if isinstance(written, ast.Subscript) and ast.unparse(written).endswith(".shape[0]"):
        counted.append(interpreter.value_at(source, written.value.value))  # type: ignore[attr-defined]
    return any(one is other for one in counted for other in cut)


def miscounted_epochs(source: Source) -> Iterator[Spot]:
    """Find steps per epoch counted in samples, and data sets that repeat for the epochs of ``fit``, by events."""
    batches = "count batches: steps_per_epoch = samples // batch_size, and one pass over the data set in an epoch"
    for event in file_events(source):
        says = _miscount_text(source, event) if event.name == ".fit" else None
        if says is not None:
            yield spots.node_spot(event.node, says, Prescription("edit", Effect.CHANGES_TRAINING, batches))


def _miscount_text(source: Source, event: Event) -> str | None:
    data, given = event.given.get("x", 0), event.given
    if data.kind != "dataset" or not isinstance(data.data, dict):
        return None
    steps, epochs = given.get("steps_per_epoch"), given.get("epochs", 3).known
    rows, batch, repeated = (data.data.get(name) for name in ("rows", "batch", "repeated"))
    if "steps_per_epoch" not in given.keywords:
        twice = repeated and repeated > 1 and repeated == epochs
        return f"the data set repeats itself {repeated} times in each epoch of fit()" if twice else None
    if batch and batch > 1 and steps.kind == "number" and rows and steps.known == rows:
        return f"steps_per_epoch counts {rows:,} samples; a step takes {batch} of them"
    if batch and batch > 1 and _counts_dataset_rows(source, event, steps, data):
        return f"steps_per_epoch counts samples; a step takes {batch} of them"
    if not rows or not batch or not isinstance(steps.known, int) or not isinstance(event.node, ast.Call):
        return None
    written = node_lookup.argument_value(event.node, "steps_per_epoch")
    if not smaller_batch_size(steps.known, rows, batch) or not is_quotient(source, written):
        return None
    says = f"an epoch takes {steps.known * batch:,} of {rows:,} samples: steps_per_epoch counts other"
    return f"{says} batches than the {batch} samples of a step"
