"""Recurrent layers that are unrolled for a run of a few steps, by sizes in the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import ceil

from slowtrain.script.evaluators import array_rules, expression_values, literal_sizes, setting_origins
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import Source

RECURRENT_LAYERS = frozenset({"LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D"})
# Tracing one time step of a layer takes about as long as some tens of training steps through it.
MIN_SEQUENCE_LENGTH = 64
MAX_STEPS = 100
_UNROLL_PATTERN = re.compile(r"\bunroll\b")


def short_run_unrolls(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Each ``unroll=True`` on long sequences in a file whose runs are short, with the text of the spot."""
    if len(_UNROLL_PATTERN.findall(source.plain)) == 0 or not call_index.index_of(source).called("fit"):
        return
    found = list(_unroll_values(source))
    turns, steps = _sequence_length(source) if found else None, _total_steps(source) if found else None
    if turns is None or steps is None or turns <= MIN_SEQUENCE_LENGTH or steps > MAX_STEPS:
        return
    for given in found:
        yield given, f"{turns} time steps are each built and traced separately, for a run of {steps} steps"


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
        expression_values.static_value(source, node_lookup.argument_value(c, "shape", 0))
        for c in call_index.index_of(source).called("Input")
    ]
    known = [s[0] for s in shapes if isinstance(s, list) and len(s) > 1]
    return max(known) if known and all(array_rules.is_int(n) for n in known) else None


def _total_steps(source: Source) -> int | None:
    """Steps of all calls of ``fit`` in the file; None if one is in a loop or has unknown sizes."""
    total = 0
    for call in call_index.index_of(source).called("fit"):
        epochs, size = node_lookup.argument_value(call, "epochs", 3), node_lookup.argument_value(call, "batch_size", 2)
        if any(k.arg is None for k in call.keywords) or literal_sizes.repeating_loop(source, call, 2) is not None:
            return None
        times = 1 if epochs is None else literal_sizes.literal_int(source, epochs)
        each = _epoch_steps(source, call, 32 if size is None else literal_sizes.literal_int(source, size))
        if times is None or each is None:
            return None
        total += times * each
    return total


def _epoch_steps(source: Source, call: ast.Call, batch: int | None) -> int | None:
    given = node_lookup.argument_value(call, "steps_per_epoch")
    if given is not None:
        return literal_sizes.literal_int(source, given)
    data = node_lookup.argument_value(call, "x", 0)
    known = expression_values.static_value(source, data)
    if isinstance(known, array_rules.DatasetValue):
        return ceil(known.rows / known.batch) if known.rows and known.batch and not known.endless else None
    rows = literal_sizes.row_count(source, data)
    return ceil(rows / batch) if rows and batch else None
