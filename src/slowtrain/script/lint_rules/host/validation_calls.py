"""Validations that take longer than the training between them, as far as sizes in the text tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import ceil

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.lint_rules.compute import recurrent_layers
from slowtrain.script.lint_rules.host import fit_calls
from slowtrain.script.navigation import (
    call_index,
    name_bindings,
    node_lookup,
    scope_names,
    setting_origins,
)
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MAX_VALIDATION_SHARE = 0.1  # of the training time that validation takes in the cure
MIN_KEPT_VALIDATIONS = 2  # in the cure
MIN_VALIDATIONS = 3


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
        recurrent_layers.sample_count(several)
        if several.kind in ("list", "tuple", "dict")
        else fit_calls.given_rows(source, node)
    )


def long_loop_evaluations(source: Source) -> Iterator[tuple[ast.expr, str, tuple[Edit, ...]]]:
    """Find passes over a test set that take longer than the steps of the training loop between two passes."""
    if "from_tensor_slices" not in source.text or not call_index.index_of(source).called(*fit_calls.STEP_NAMES):
        return
    for test in call_index.nodes_of_kind(source, ast.If):
        modulus = periodic_work.modulus_of_guard(test)
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
        yield test.test, says, tuple(periodic_work.enlarge_modulus(source, test.lineno, rarer))


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
        made = dataset_chains.last_assignment(source, over, over)
    for call in node_lookup.chain_calls(made) if isinstance(made, ast.Call) else ():
        if node_lookup.called_name(call) == "take" and isinstance(call.func, ast.Attribute):
            return queries.int_at(source, node_lookup.argument_value(call, "count", 0))
        if node_lookup.called_name(call) not in ("prefetch", "cache", "with_options"):
            return None
    return None


def _takes_one_step(source: Source, loop: ast.AST, test: ast.If) -> bool:
    """Whether an iteration takes a training step outside ``test``."""
    beside = [s for s in getattr(loop, "body", []) if s is not test and not isinstance(s, (ast.For, ast.While))]
    return fit_calls.takes_training_step(source, beside)


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
        rows, size = fit_calls.chain_rows_and_batch(source, flow)
        if rows and size:
            return ceil(rows / size)
    return None
