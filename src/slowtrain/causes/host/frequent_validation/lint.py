"""Finds the cause host/frequent-validation in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import ceil

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import sample_counts, spots, step_code
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

SCORING_CALLS = frozenset({"__call__", ".predict_on_batch", ".test_on_batch"})
MAX_STEPS_BETWEEN_PASSES = 10  # steps between two passes. Validation data has more batches than that.
MIN_VALIDATIONS = 3  # validations. Fewer are final evaluations.
MAX_VALIDATION_SHARE = 0.1  # of the training time that validation takes in the cure
MIN_KEPT_VALIDATIONS = 2  # in the cure


def find_spots(source: Source) -> Iterable[Spot]:
    """Validation on more data than is trained on between two validations, by sizes in the text."""
    known = (
        *long_fit_validations(source),
        *long_counted_validations(source),
        *long_loop_evaluations(source),
    )
    others = () if known else (*long_validations(source), *long_reached_validations(source))
    for given, says, changed in (*known, *((node, says, ()) for node, says in others)):
        rarer = "validate less often (validation_freq), or on a part of the data"
        cure = Prescription("edit", Effect.EXACT, rarer, edits=changed)
        yield spots.node_spot(given, says, cure)


def long_validations(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find passes over other data that take longer than the steps of a hand-written loop between them."""
    if not any(word in source.text for word in ("GradientTape", "train_on_batch")):
        return
    moved = step_loops.step_events(source)
    seen: set[int] = set()
    for event in file_events(source):
        passed = _scored_batches(source, event)
        found = step_loops.loop_and_period(source, event) if passed is not None else None
        if passed is None or found is None or found[0].number in seen:
            continue
        (loop, every), own = found, event.begun
        if own is not None and (loop is own or any(own in step.loops for step in moved)):
            continue  # it is the training itself
        if event.name == ".predict" and loop.number in event.given.varying_inside:
            continue  # a generator gives other data in each iteration, which is training data
        if (every <= MAX_STEPS_BETWEEN_PASSES if passed == 0 else passed > every) and step_loops.steps_through_data(
            source, loop
        ):
            seen.add(loop.number)
            how = f"{passed:,} batches of other data" if passed else "a pass over other data"
            yield event.node, f"after every {every} steps come {how}" if every > 1 else f"after each step comes {how}"


def _scored_batches(source: Source, event: Event) -> int | None:
    """Return the batches that an event iterates over to score a model; 0 if unknown."""
    if event.graph or event.producer:
        return None
    if event.name in (".evaluate", ".predict") and event.on is not None and event.on.kind in ("keras", "object"):
        data, size = event.given.get("x", 0), event.given.get("batch_size", 2).known
        if data.kind == "dataset":
            return operators.known_length(data) or (0 if event.name == ".evaluate" else None)
        rows = sample_counts.sample_count(data)
        if rows is None:
            return 0 if event.name == ".evaluate" else None
        return ceil(rows / (size if isinstance(size, int) and size else sample_counts.DEFAULT_BATCH_SIZE))
    loop = event.begun
    if loop is None or loop.items.kind != "dataset":
        return None
    scoring = any(
        loop in e.loops and (e.name in SCORING_CALLS or (e.on is not None and e.on.kind == "graph"))
        for e in file_events(source)
    )
    return (loop.turns or 0) if scoring else None


def long_reached_validations(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find ``fit`` whose validation has more samples than its short epochs."""
    for event in file_events(source) if "validation_data" in source.text else ():
        given, held = event.given, event.given.get("validation_data")
        if event.name != ".fit" or held.kind in ("unknown", "none"):
            continue
        epochs, freq = given.get("epochs", 3).known, given.get("validation_freq")
        rows, other = _pass_samples(given.get("x", 0)), _pass_samples(held)
        steps = given.get("steps_per_epoch").known
        batch = (given.get("x", 0).data or {}).get("batch") if given.get("x", 0).kind == "dataset" else None
        if isinstance(steps, int) and isinstance(batch, int):
            rows = steps * batch
        elif "steps_per_epoch" in given.keywords:
            continue
        many = isinstance(epochs, int) and epochs >= MIN_VALIDATIONS and (freq.kind == "unknown" or freq.known == 1)
        if rows and other and many and other > rows:
            yield event.node, f"each epoch of {rows:,} samples is followed by a validation on {other:,} samples"


def _pass_samples(data: Value) -> int | None:
    """Return the samples of one pass over data."""
    if data.kind != "dataset":
        return sample_counts.sample_count(data)
    known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
    turns, batch = known.get("turns"), known.get("batch")
    return turns * batch if turns and batch else None


def long_counted_validations(source: Source) -> Iterator[tuple[ast.expr, str, tuple[Edit, ...]]]:
    """Find calls of ``fit`` with more ``validation_steps`` than ``steps_per_epoch``."""
    for call in call_index.index_of(source).called("fit", "fit_generator"):
        given = node_lookup.argument_value(call, "validation_steps")
        steps = queries.int_at(source, node_lookup.argument_value(call, "steps_per_epoch"))
        held, epochs = (
            queries.int_at(source, given),
            queries.int_at(source, node_lookup.argument_value(call, "epochs")),
        )
        if given is None or not steps or not held or node_lookup.argument_value(call, "validation_freq") is not None:
            continue
        if held > steps and (epochs or MIN_VALIDATIONS) >= MIN_VALIDATIONS:
            says = f"each epoch of {steps:,} steps is followed by a validation of {held:,} batches"
            yield given, says, tuple(keras_calls.validate_less_often(source, call.lineno, 2))


def long_fit_validations(source: Source) -> Iterator[tuple[ast.expr, str, tuple[Edit, ...]]]:
    """Find calls of ``fit`` in which the validation of an epoch has more samples than the epoch."""
    for call in call_index.index_of(source).called("fit"):
        given, data = node_lookup.argument_value(call, "validation_data"), node_lookup.argument_value(call, "x", 0)
        if (
            not isinstance(given, ast.Tuple)
            or not given.elts
            or node_lookup.argument_value(call, "steps_per_epoch") is not None
        ):
            continue
        freq = node_lookup.argument_value(call, "validation_freq")
        epochs = queries.int_at(source, node_lookup.argument_value(call, "epochs", 3))
        size = node_lookup.argument_value(call, "batch_size", 2)
        batch = 32 if size is None else queries.int_at(source, size)
        rows, held = _sample_count(source, data), _sample_count(source, given.elts[0])
        if not rows or not held or not batch or not epochs or epochs < MIN_VALIDATIONS:
            continue
        if freq is not None and queries.int_at(source, freq) != 1:
            continue
        if held <= rows and rows > batch:
            continue
        # A forward pass is about a third of a step.
        rarer = max(ceil(epochs / max(MAX_VALIDATION_SHARE * epochs * 3 * rows / held, MIN_KEPT_VALIDATIONS)), 2)
        what = f"{rows:,} samples, {ceil(rows / batch):,} step{'s' * (rows > batch)}"
        says = f"each epoch of {what} is followed by a validation on {held:,} samples"
        yield given, says, tuple(keras_calls.validate_less_often(source, call.lineno, rarer))


def _sample_count(source: Source, node: ast.expr | None) -> int | None:
    """Return the rows of an array, or of the first of several inputs."""
    several = interpreter.value_at(source, node) if node is not None else UNKNOWN
    return (
        sample_counts.sample_count(several)
        if several.kind in ("list", "tuple", "dict")
        else sample_counts.given_rows(source, node)
    )


def long_loop_evaluations(source: Source) -> Iterator[tuple[ast.expr, str, tuple[Edit, ...]]]:
    """Find passes over a test set that take longer than the steps of the training loop between two passes."""
    if "from_tensor_slices" not in source.text or not call_index.index_of(source).called(*step_code.STEP_NAMES):
        return
    for test in call_index.nodes_of_kind(source, ast.If):
        modulus = keras_calls.modulus_of_guard(test)
        every = queries.int_at(source, modulus) if modulus is not None else None
        if not isinstance(test, ast.If) or every is None:
            continue
        loop = next(iter(scope_names.enclosing_loops(source, test)), None)
        steps = _loop_steps(source, loop) if loop is not None else None
        if loop is None or not steps or not _takes_one_step(source, loop, test):
            continue
        held = _evaluated_batches(source, test)
        if held is None or held <= every or steps // every < MIN_VALIDATIONS:
            continue
        passes = steps // every
        rarer = max(ceil(passes / max(MAX_VALIDATION_SHARE * 3 * steps / held, MIN_KEPT_VALIDATIONS)), 2)
        says = f"after every {every} steps come {held:,} batches of another data set"
        yield test.test, says, tuple(keras_calls.enlarge_modulus(source, test.lineno, rarer))


def _loop_steps(source: Source, loop: ast.For | ast.While) -> int | None:
    """Return the iterations of a loop, including loops over ``ds.batch(32).take(500)``."""
    known = queries.loop_turns(source, loop)
    if known is not None or not isinstance(loop, ast.For):
        return known
    over: ast.expr | None = loop.iter
    while isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "tqdm", "iter") and over.args:
        over = over.args[0]
    made = setting_origins.written_value(source, over) if over is not None else None
    if made is None and isinstance(over, ast.Name):  # ds = ds.take(500)
        stores = [
            s
            for s in name_bindings.bindings_of(name_bindings.binding_scope(source, over, over.id), over.id)
            if isinstance(s, ast.Name)
        ]
        last = class_members.deciding_assignment(source, over, stores, lambda _: None)
        made = name_bindings.assigned_value(source, last) if last is not None else None
    for call in node_lookup.chain_calls(made) if isinstance(made, ast.Call) else ():
        if node_lookup.called_name(call) == "take" and isinstance(call.func, ast.Attribute):
            return queries.int_at(source, node_lookup.argument_value(call, "count", 0))
        if node_lookup.called_name(call) not in ("prefetch", "cache", "with_options"):
            return None
    return None


def _takes_one_step(source: Source, loop: ast.AST, test: ast.If) -> bool:
    """Whether an iteration takes a training step outside ``test``."""
    beside = [s for s in getattr(loop, "body", []) if s is not test and not isinstance(s, (ast.For, ast.While))]
    return step_code.takes_training_step(source, beside)


def _evaluated_batches(source: Source, test: ast.If) -> int | None:
    """Return the batches of the data set that a loop inside ``test`` iterates over."""
    for node in (n for one in test.body for part in source.called(one) for n in syntax_tree.walk(part)):
        if not isinstance(node, (ast.For, ast.comprehension)) or not isinstance(node.iter, (ast.Name, ast.Attribute)):
            continue
        known = queries.dataset_at(source, node.iter)
        if known is not None and known.data.get("turns") and known.data.get("batch"):
            return int(known.data["turns"])
        made = name_bindings.single_assignment(source, node.iter) if isinstance(node.iter, ast.Name) else None
        flow = dataset_chains.upstream_chain(source, made) if isinstance(made, ast.Call) else None
        if flow is None or not flow.whole or {"take", "shard", "repeat", "filter"} & set(flow.names):
            continue
        rows, size = sample_counts.chain_rows_and_batch(source, flow)
        if rows and size:
            return ceil(rows / size)
    return None
