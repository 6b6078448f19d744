"""Recurrent layers that are unrolled for a run of a few steps, by sizes in the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import ceil

from slowtrain.script.interpreter.domain.abstract_values import shape_argument
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text.source_file import Source

RECURRENT_LAYERS = frozenset({"LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D"})
# Tracing one time step of a layer takes about as long as some tens of training steps through it.
MIN_SEQUENCE_LENGTH = 64
MAX_STEPS = 100
_UNROLL_PATTERN = re.compile(r"\bunroll\b")


def short_run_unrolls(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Each ``unroll=True`` on long sequences in a file whose runs are short, with the text of the spot."""
    if "unroll" not in source.words or not call_index.index_of(source).calls_of("fit"):
        return
    found = list(_unroll_values(source))
    iterations, steps = _sequence_length(source) if found else None, _total_steps(source) if found else None
    if iterations is None or steps is None or iterations <= MIN_SEQUENCE_LENGTH or steps > MAX_STEPS:
        return
    for given in found:
        yield given, f"{iterations} time steps are each built and traced separately, for a run of {steps} steps"


def _unroll_values(source: Source) -> Iterator[ast.expr]:
    """The True that layers of the file get for ``unroll``, also through mappings and ``partial``."""
    for call in call_index.nodes_of_kind(source, ast.Call):
        assert isinstance(call, ast.Call)
        given = node_lookup.argument_value(call, "unroll")
        if (
            given is not None
            and _is_true(source, given)
            and (_is_recurrent_layer(source, call) or _reaches_layer(source, call))
        ):
            yield given
    for table in call_index.nodes_of_kind(source, ast.Dict):
        assert isinstance(table, ast.Dict)
        pairs = zip(table.keys, table.values, strict=True)
        under = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "unroll"]
        if under and _is_true(source, under[0]) and _reaches_layer(source, table):
            yield under[0]


def _is_true(source: Source, given: ast.expr) -> bool:
    written = setting_origins.literal_origin(source, given)
    return written is not None and written.value is True


def _is_recurrent_layer(source: Source, call: ast.Call) -> bool:
    """Whether it creates a recurrent layer, by its name, by ``getattr(layers, kind)`` or by ``partial``."""
    made: ast.expr = call.func
    if node_lookup.called_name(call) == "partial" and call.args:
        made = call.args[0]
    if isinstance(made, ast.Call) and scope_names.dotted_name(made.func) == "getattr" and made.args:
        return name_bindings.qualified_name(source, made.args[0]) == "keras.layers"
    if isinstance(made, (ast.Name, ast.Subscript)) and not name_bindings.qualified_name(source, made):
        written = setting_origins.written_value(source, made)  # cell = layers.GRU
        made = written if written is not None else made
    name = name_bindings.qualified_name(source, made)
    return name.startswith("keras.layers.") and name.rpartition(".")[2] in RECURRENT_LAYERS


def _reaches_layer(source: Source, table: ast.expr) -> bool:
    """Whether a mapping is passed to such a layer by ``**``, and nothing else in the file contains ``unroll``."""
    if isinstance(table, ast.Call) and scope_names.dotted_name(table.func) != "dict":
        return False
    if len(_UNROLL_PATTERN.findall(source.plain)) > 1:
        return False
    above = node_lookup.parents_of(source)
    holder = above.get(table)
    names = {scope_names.dotted_name(t) for t in holder.targets} if isinstance(holder, ast.Assign) else set()
    for call in call_index.nodes_of_kind(source, ast.Call):
        assert isinstance(call, ast.Call)
        stars = [k.value for k in call.keywords if k.arg is None]
        if any(s is table or scope_names.dotted_name(s) in names - {""} for s in stars) and _is_recurrent_layer(
            source, call
        ):
            return True
    return False


def _sequence_length(source: Source) -> int | None:
    """The longest sequence of the inputs in the file; None if a length is not known."""
    shapes = [
        shape_argument(interpreter.value_at(source, given))
        for c in call_index.index_of(source).calls_of("Input")
        if (given := node_lookup.argument_value(c, "shape", 0)) is not None
    ]
    known = [s[0] for s in shapes if s is not None and len(s) > 1]
    return max(n for n in known if n is not None) if known and None not in known else None


def _total_steps(source: Source) -> int | None:
    """Steps of all calls of ``fit`` in the file; None if one is in a loop or has unknown sizes."""
    total = 0
    for call in call_index.index_of(source).calls_of("fit"):
        epochs, size = node_lookup.argument_value(call, "epochs", 3), node_lookup.argument_value(call, "batch_size", 2)
        if any(k.arg is None for k in call.keywords) or queries.repeating_loop(source, call, 2) is not None:
            return None
        times = 1 if epochs is None else queries.int_at(source, epochs)
        each = _epoch_steps(source, call, 32 if size is None else queries.int_at(source, size))
        if times is None or each is None:
            return None
        total += times * each
    return total


def _epoch_steps(source: Source, call: ast.Call, batch: int | None) -> int | None:
    given = node_lookup.argument_value(call, "steps_per_epoch")
    if given is not None:
        return queries.int_at(source, given)
    data = node_lookup.argument_value(call, "x", 0)
    known = queries.dataset_at(source, data)
    if known is not None:
        return known.data.get("turns") if known.data.get("batch") and not queries.is_endless(known) else None
    rows = queries.row_count_at(source, data)
    return ceil(rows / batch) if rows and batch else None
