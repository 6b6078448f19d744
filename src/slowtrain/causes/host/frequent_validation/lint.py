"""Finds the cause host/frequent-validation in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import ceil

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import sample_counts, spots
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source

SCORING_METHODS = frozenset({".evaluate", ".predict"})
SCORING_CALLS = frozenset({"__call__", ".predict_on_batch", ".test_on_batch"})
MAX_STEPS_BETWEEN_PASSES = 10  # steps between two passes. Validation data has more batches than that.
MAX_STEPS_BEFORE_UNKNOWN_PASS = 100
MIN_VALIDATIONS = 3  # validations. Fewer are final evaluations.
MAX_VALIDATION_SHARE = 0.1  # of the training time that validation takes in the cure
MIN_KEPT_VALIDATIONS = 2  # in the cure


def find_spots(source: Source) -> Iterable[Spot]:
    """Validation on more data than is trained on between two validations, by sizes in the text."""
    yield from long_fit_validations(source)
    yield from long_counted_validations(source)
    yield from long_loop_validations(source)


def _validation_spot(node: ast.expr, says: str, changed: Iterable[Edit], worth_if: str | None = None) -> Spot:
    rarer = "validate less often (validation_freq), or on a part of the data"
    return spots.node_spot(node, says, Prescription("edit", Effect.EXACT, rarer, edits=tuple(changed)), worth_if)


def _rarer_period(passes: int, training: float) -> int:
    """Return how many times rarer to validate, if ``passes`` validations take as long as ``training`` forward passes.

    A forward pass is about a third of a step.
    """
    return max(ceil(passes / max(MAX_VALIDATION_SHARE * 3 * training, MIN_KEPT_VALIDATIONS)), 2)


def long_loop_validations(source: Source) -> Iterator[Spot]:
    """Find passes over other data that take longer than the steps of a hand-written loop between them."""
    if not any(word in source.text for word in call_index.STEP_CALLS):
        return
    moved = step_loops.step_events(source)
    seen: set[int] = set()
    for event in file_events(source):
        found = step_loops.loop_and_period(source, event) if _may_score(event) else None
        if found is None or found[0].number in seen:
            continue
        (loop, every), own, guard = found, event.begun, _modulus_guard(source, event)
        guarded = guard is not None and (loop.turns or 0) // every >= MIN_VALIDATIONS
        passed = _scored_batches(source, event, guarded=guarded)
        if passed is None or (own is not None and (loop is own or any(own in step.loops for step in moved))):
            continue  # it is the training itself
        if event.name == ".predict" and loop.number in event.given.varying_inside:
            continue  # a generator gives other data in each iteration, which is training data
        most = MAX_STEPS_BEFORE_UNKNOWN_PASS if guarded else MAX_STEPS_BETWEEN_PASSES
        long = passed > every if passed else every <= most
        if not long or not (guarded or step_loops.steps_through_data(source, loop)):
            continue
        seen.add(loop.number)
        says = f"after every {every} steps come" if every > 1 else "after each step comes"
        says += f" {passed:,} batches of other data" if passed else " a pass over other data"
        changed: list[Edit] = []
        if guard is not None and passed and loop.turns:
            rarer = _rarer_period(loop.turns // every, loop.turns / passed)
            changed = periodic_work.enlarge_modulus(source, guard.lineno, rarer)
        sure = passed or every <= MAX_STEPS_BETWEEN_PASSES
        worth_if = (
            None if sure else f"this is more than {every // 5} batches"
        )  # 7 % of the steps: a third of a step each
        yield _validation_spot(event.node if guard is None else guard.test, says, changed, worth_if)


def _modulus_guard(source: Source, event: Event) -> ast.If | None:
    """Return the ``if step % 10 == 0`` around an event, in this file."""
    places = [*zip(event.path, event.files, strict=True), (event.node, event.source)]
    for node in (node for node, file in places if file is source):
        guard = node_lookup.enclosing_node(source, node, ast.If)
        if isinstance(guard, ast.If) and periodic_work.modulus_of_guard(guard) is not None:
            return guard
    return None


def _may_score(event: Event) -> bool:
    """Whether an event passes data through a model, or begins a loop over a data set, outside of graphs."""
    loop = event.begun
    scores = event.name in SCORING_METHODS or (loop is not None and loop.items.kind == "dataset")
    return scores and not event.graph and not event.producer


def _scored_batches(source: Source, event: Event, *, guarded: bool) -> int | None:
    """Return the batches that an event iterates over to score a model; 0 if unknown.

    ``guarded``: it happens in some iterations only, so that a loop over other data scores a model.
    """
    if not _may_score(event):
        return None
    if event.name in SCORING_METHODS and event.on is not None and event.on.kind in ("keras", "object"):
        data, size = event.given.get("x", 0), event.given.get("batch_size", 2).known
        unknown = 0 if event.name == ".evaluate" else None
        if data.kind == "dataset":
            return operators.known_length(data) or unknown
        rows = sample_counts.sample_count(data)
        batch = size if isinstance(size, int) and size else sample_counts.DEFAULT_BATCH_SIZE
        return unknown if rows is None else ceil(rows / batch)
    loop = event.begun
    if loop is None or loop.items.kind != "dataset":
        return None
    inside = (e for e in file_events(source) if loop in e.loops)
    scoring = guarded or any(e.name in SCORING_CALLS or (e.on is not None and e.on.kind == "graph") for e in inside)
    return (loop.turns or 0) if scoring else None


def _pass_samples(data: Value) -> int | None:
    """Return the samples of one pass over data."""
    if data.kind != "dataset":
        return sample_counts.sample_count(data)
    known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
    turns, batch = known.get("turns"), known.get("batch")
    return turns * batch if turns and batch else None


def long_counted_validations(source: Source) -> Iterator[Spot]:
    """Find calls of ``fit`` with more ``validation_steps`` than ``steps_per_epoch``."""
    for call in call_index.index_of(source).calls_of("fit", "fit_generator"):
        given = node_lookup.argument_value(call, "validation_steps")
        steps = queries.int_at(source, node_lookup.argument_value(call, "steps_per_epoch"))
        held = queries.int_at(source, given)
        epochs = queries.int_at(source, node_lookup.argument_value(call, "epochs")) or MIN_VALIDATIONS
        if given is None or not steps or not held or node_lookup.argument_value(call, "validation_freq") is not None:
            continue
        if held > steps and epochs >= MIN_VALIDATIONS:
            says = f"each epoch of {steps:,} steps is followed by a validation of {held:,} batches"
            yield _validation_spot(given, says, keras_calls.validate_less_often(source, call.lineno, 2))


def long_fit_validations(source: Source) -> Iterator[Spot]:
    """Find calls of ``fit`` in which the validation of an epoch has more samples than the epoch."""
    for event in file_events(source) if "validation_data" in source.text else ():
        given, held = event.given, event.given.get("validation_data")
        epochs, freq = given.get("epochs", 3).known, given.get("validation_freq")
        rare = freq.kind not in ("unknown", "none") and freq.known != 1
        if event.name != ".fit" or rare or not isinstance(epochs, int) or epochs < MIN_VALIDATIONS:
            continue
        call = event.node if isinstance(event.node, ast.Call) else None
        written = node_lookup.argument_value(call, "validation_data") if call is not None else None
        rows, batch = _epoch_samples(source, event)
        first = written.elts[0] if isinstance(written, ast.Tuple) and written.elts else None
        other = _pass_samples(held) or _written_rows(source, first)
        if not rows or not other or (other <= rows and rows > (batch or 0)):
            continue
        what = f"{rows:,} samples" + (f", {ceil(rows / batch):,} step{'s' * (rows > batch)}" if batch else "")
        says = f"each epoch of {what} is followed by a validation on {other:,} samples"
        rarer = _rarer_period(epochs, epochs * rows / other)
        changed = keras_calls.validate_less_often(source, event.node.lineno, rarer)
        yield _validation_spot(written or event.node, says, changed)


def _epoch_samples(source: Source, event: Event) -> tuple[int | None, int | None]:
    """Return the samples of an epoch of ``fit``, and those of a step."""
    given, data, steps = event.given, event.given.get("x", 0), event.given.get("steps_per_epoch")
    known: dict[str, int | None] = data.data if data.kind == "dataset" and isinstance(data.data, dict) else {}
    batch = known.get("batch") if data.kind == "dataset" else _array_batch_size(event)
    if "steps_per_epoch" in given.keywords:
        return (steps.known * batch if isinstance(steps.known, int) and batch and known else None), batch
    written = node_lookup.argument_value(event.node, "x", 0) if isinstance(event.node, ast.Call) else None
    return _pass_samples(data) or _written_rows(source, written), batch


def _array_batch_size(event: Event) -> int | None:
    size = event.given.get("batch_size", 2)
    absent = size.kind in ("unknown", "none") and "batch_size" not in event.given.keywords
    return sample_counts.DEFAULT_BATCH_SIZE if absent else size.known if isinstance(size.known, int) else None


def _written_rows(source: Source, node: ast.expr | None) -> int | None:
    """Return the rows of an array by the expression that gives it; None for several inputs of unknown arrays."""
    several = node is not None and interpreter.value_at(source, node).kind in ("list", "tuple", "dict")
    return None if several else sample_counts.given_rows(source, node)
