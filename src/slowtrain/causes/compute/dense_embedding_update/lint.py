"""Where the cause compute/dense-embedding-update shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.compute.dense_embedding_update import LAZY_OPTIMIZER_CURE, LOOKUP_CURE, whole_tables
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.fixes.models import model_settings
from slowtrain.script.fixes.models import table_lookups as cured
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, training_calls
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

ADAM_CLASSES = frozenset({"adam", "adamw", "nadam", "adamax"})  # they keep averages of every weight and update each one
NAME_LOADERS = frozenset({"get", "deserialize"})
MAX_DEPTH = 5
LIGHT_LAYERS = frozenset(
    "Embedding Dense Dot Flatten Activation Input InputLayer Concatenate Dropout GlobalAveragePooling1D Reshape "
    "Multiply Add Lambda BatchNormalization Average Subtract GlobalMaxPooling1D Permute Hashing StringLookup "
    "IntegerLookup Discretization Normalization".split()
)
# Methods by which a step updates rows of a table itself.
SCATTER_METHODS = frozenset(name[1:] for name in step_loops.SCATTER_UPDATES) | {"scatter_update", "scatter_nd_update"}
LOOKUP_FUNCTIONS = frozenset({"tensorflow.gather", "tensorflow.nn.embedding_lookup", "keras.ops.take"})
PRODUCT_FUNCTIONS = ("matmul", "einsum", "tensordot", "transpose")


def find_spots(source: Source) -> Iterable[Spot]:
    """Large tables with Adam; work on every row of a table before the lookup."""
    whole, updated = tuple(whole_tables.whole_table_ops(source)), tuple(dense_table_updates(source))
    for one in whole:
        cure = Prescription("edit", Effect.EQUIVALENT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    penalised = tuple(whole_tables.penalised_embeddings(source))
    for one in penalised:
        yield Spot(one.start, one.end, one.says, Prescription("edit", Effect.CHANGES_TRAINING, one.cure))
    for one in whole_tables.densified_gradients(source):
        yield Spot(one.start, one.end, one.says, Prescription("edit", Effect.EQUIVALENT, one.cure))
    for one in updated:
        cure = Prescription("edit", Effect.CHANGES_TRAINING, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    for call, rows in () if whole else table_wide_ops(source):
        says = f"{node_lookup.called_name(call)} of all {rows:,} rows, though a step looks up only those of a batch"
        yield spots.node_spot(call, says, Prescription("edit", Effect.EQUIVALENT, LOOKUP_CURE))
    for norm, (rows, width) in () if penalised else reached_penalties(source):
        says = f"this op and its gradient read all {rows:,} x {width} numbers of a table in each step"
        fewer = "take the norm of the rows that were looked up"
        yield spots.node_spot(norm, says, Prescription("edit", Effect.CHANGES_TRAINING, fewer))
    for call, (rows, width) in () if updated else densely_updated_tables(source):
        says = f"Adam updates all {rows:,} x {width} numbers of this table in each step"
        yield spots.node_spot(call, says, Prescription("edit", Effect.CHANGES_TRAINING, LAZY_OPTIMIZER_CURE))


def uses_only_adam(source: Source) -> bool:
    """Whether every optimizer of the file is an Adam."""
    names = _optimizer_names(source)
    return bool(names) and all(name in ADAM_CLASSES for name in names)


def uses_another_optimizer(source: Source) -> bool:
    """Whether some optimizer is certainly not an Adam. It may update the table."""
    return any(name and name not in ADAM_CLASSES for name in _optimizer_names(source))


def _optimizer_names(source: Source) -> list[str]:
    """Return the names of optimizers in compile() or apply_gradients(); "" if unknown."""
    given = [node_lookup.argument_value(c, "optimizer", 0) for c in call_index.index_of(source).called("compile")]
    applied = call_index.index_of(source).called("apply_gradients", "minimize")
    given += [c.func.value for c in applied if isinstance(c.func, ast.Attribute)]
    return [_optimizer_name(source, one, MAX_DEPTH) if one is not None else "" for one in given]


def _optimizer_name(source: Source, node: ast.expr, depth: int) -> str:
    """Return the name of the optimizer in lower case; "" if unknown."""
    if not depth:
        return ""
    if isinstance(node, ast.Attribute) and node.attr == "optimizer":
        return "adam" if compiles_with_adam(source) else ""
    written = node if isinstance(node, ast.Call) else setting_origins.written_value(source, node)
    if isinstance(written, ast.Constant):
        return str(written.value).lower()
    if not isinstance(written, ast.Call):
        return ""
    name = name_bindings.qualified_name(source, written.func)
    last = name.rpartition(".")[2]
    if name.startswith("keras.optimizers."):
        if last in NAME_LOADERS:
            return _config_optimizer(source, written.args[0], depth - 1) if written.args else ""
        return last.lower()
    if (
        scope_names.dotted_name(written.func) == "getattr" and len(written.args) > 1
    ):  # getattr(keras.optimizers, "Adam")(…)
        return ""
    if isinstance(written.func, ast.Call) and scope_names.dotted_name(written.func.func) == "getattr":
        inner = written.func.args
        known = len(inner) > 1 and name_bindings.qualified_name(source, inner[0]) == "keras.optimizers"
        return _optimizer_name(source, inner[1], depth - 1) if known else ""
    table = written.func.value if isinstance(written.func, ast.Subscript) else None
    if table is not None or (isinstance(written.func, ast.Name) and not name):
        of = setting_origins.written_value(source, written.func)
        whole = name_bindings.qualified_name(source, of) if of is not None else ""
        if whole.startswith("keras.optimizers."):
            return whole.rpartition(".")[2].lower()
    made = queries.called_function(source, written)
    back = (
        {_optimizer_name(source, one, depth - 1) for one in scope_names.returned_values(made)}
        if made is not None
        else set()
    )
    return back.pop() if len(back) == 1 else ""


def _config_optimizer(source: Source, given: ast.expr, depth: int) -> str:
    """Return the name from ``"adam"`` or ``{"class_name": "adam", "config": {…}}``."""
    written = setting_origins.written_value(source, given)
    if isinstance(written, ast.Dict):
        pairs = zip(written.keys, written.values, strict=True)
        named = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "class_name"]
        return _optimizer_name(source, named[0], depth) if len(named) == 1 else ""
    if isinstance(written, ast.Call) and scope_names.dotted_name(written.func) == "dict":
        inner = node_lookup.argument_value(written, "class_name")
        return _optimizer_name(source, inner, depth) if inner is not None else ""
    return _optimizer_name(source, given, depth)


def compiles_with_adam(source: Source) -> bool:
    """Whether all models are compiled with an Adam, which ``self.optimizer`` then is."""
    given = [node_lookup.argument_value(c, "optimizer", 0) for c in call_index.index_of(source).called("compile")]
    plain = [one for one in given if one is not None and not _is_model_optimizer(one)]
    return len(plain) == len(given) > 0 and all(
        _optimizer_name(source, one, MAX_DEPTH - 1) in ADAM_CLASSES for one in plain
    )


def _is_model_optimizer(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "optimizer"


def dense_table_updates(source: Source) -> Iterator[spots.HandwrittenOp]:
    """Find large embeddings that Adam updates in an otherwise small model."""
    if not name_bindings.may_name(source, "keras.layers.") or not training_calls.takes_training_steps(source):
        return
    known = [
        (c, n)
        for c in call_index.index_of(source).called("Embedding")
        if (n := whole_tables.table_size(source, c)) is not None
    ]
    large = [
        (call, sizes)
        for call, sizes in known
        if sizes[0] >= whole_tables.MIN_LARGE_TABLE_ROWS and sizes[0] * sizes[1] >= whole_tables.MIN_TABLE_NUMBERS
    ]
    if (
        not large
        or not _is_light_model(source, max(rows for _, (rows, _) in large))
        or not SCATTER_METHODS.isdisjoint(source.words)
    ):
        return
    changed = model_settings.use_lazy_adam(source)
    if uses_another_optimizer(source) if changed else not uses_only_adam(source):
        return
    for call, (rows, width) in large:
        says = f"Adam updates all {rows:,} x {width} numbers of this table in each step"
        cure = "use an optimizer that updates only the rows used: a lazy Adam, SGD without momentum"
        yield spots.HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, changed)


def _is_light_model(source: Source, rows: int) -> bool:
    """Whether the layers of the file do little besides lookups, and none has an output per row."""
    for name in sorted(source.words):
        calls = call_index.index_of(source).called(name) if name[:1].isupper() else []
        if any(name_bindings.qualified_name(source, c.func).startswith("keras.layers.") for c in calls):
            if name not in LIGHT_LAYERS:
                return False
            if name == "Dense" and any(not 0 < (_layer_units(source, c) or 0) < min(rows, 4096) for c in calls):
                return False
    own = call_index.nodes_of_kind(source, ast.ClassDef)
    return not any(scope_names.dotted_name(b).endswith("Layer") for n in own for b in n.bases)


def _layer_units(source: Source, call: ast.Call) -> int | None:
    return queries.int_at(source, node_lookup.argument_value(call, "units", 0))


def densely_updated_tables(source: Source) -> Iterator[tuple[ast.Call, tuple[int, int]]]:
    """Find large tables that Adam updates and that are only used for lookups, in an otherwise small model."""
    if not any(name in source.text for name in ("Adam", "adam")):
        return
    every = file_events(source)
    found = {id(e.node): (e, size) for e in every if (size := _large_table_size(e)) is not None}
    if not found or not _runs_only_adam(every) or _runs_heavy_ops(every, max(rows for _, (rows, _) in found.values())):
        return
    if any(e.name.startswith(".scatter_") for e in every):  # the step updates rows itself
        return
    looked = {id(e.given.args[0].node) for e in every if e.name in LOOKUP_FUNCTIONS and e.given.args}
    multiplied = {
        id(a.node) for e in every if e.name.endswith(PRODUCT_FUNCTIONS) for a in e.given.args if a.kind == "variable"
    }
    for node in call_index.nodes_of_kind(source, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            multiplied |= {id(interpreter.value_at(source, side).node) for side in (node.left, node.right)}
    for key, (event, size) in found.items():
        used = event.name == "keras.layers.Embedding" or key in looked
        if used and key not in multiplied and isinstance(event.node, ast.Call):
            yield event.node, size


def _large_table_size(event: Event) -> tuple[int, int] | None:
    """Return rows and width of a large trainable table that an event creates; None for other events."""
    given = event.given
    if given.get("trainable").known is False:
        return None
    if event.name == "keras.layers.Embedding":
        rows, width = _largest_number(event, given.get("input_dim", 0)), given.get("output_dim", 1).known
        steered = any(name in given.keywords for name in whole_tables.STEERING_ARGUMENTS)
        size = (rows, width) if not steered else None
    elif event.name in ("tensorflow.Variable", ".add_weight"):
        shape = event.result.shape
        size = (shape[0], shape[1]) if shape is not None and len(shape) == 2 else None
    else:
        return None
    if size is None or not isinstance(size[0], int) or not isinstance(size[1], int):
        return None
    return (
        (size[0], size[1])
        if size[0] >= whole_tables.MIN_LARGE_TABLE_ROWS and prod(size) >= whole_tables.MIN_TABLE_NUMBERS
        else None
    )


def _largest_number(event: Event, number: Value) -> int | None:
    """Return a number, or the largest of the numbers that a loop takes from a list."""
    if isinstance(number.known, int):
        return number.known
    lists = [
        one.items.items.values() for one in event.loops if one.number in number.varies and one.items.kind == "list"
    ]
    known = [one.known for several in lists for one in several if isinstance(one.known, int)]
    return max(known) if known and number.kind == "number" else None


def _runs_only_adam(every: tuple[Event, ...]) -> bool:
    """Whether every optimizer is an Adam."""
    used = [e.given.get("optimizer", 0) for e in every if e.name == ".compile"]
    used += [e.on for e in every if e.name in (".apply_gradients", ".minimize") and e.on is not None]
    return bool(used) and all(_optimizer_class(one) in ADAM_CLASSES for one in used)


def _optimizer_class(optimizer: Value) -> str:
    if isinstance(optimizer.known, str):
        return optimizer.known.lower()
    return optimizer.name.rpartition(".")[2].lower() if optimizer.kind == "keras" else ""


def _runs_heavy_ops(every: tuple[Event, ...], rows: int) -> bool:
    """Whether a step contains ops that may take longer than a pass over the table."""
    for event in every:
        last = event.name.rpartition(".")[2]
        if last in whole_tables.HEAVY_OPS and event.name.startswith(("keras.layers.", "tensorflow.nn.", "keras.ops.")):
            return True
        units = event.given.get("units", 0).known if event.name == "keras.layers.Dense" else 0
        if isinstance(units, int) and units >= min(rows, 4096):
            return True
    return False


def reached_penalties(source: Source) -> Iterator[tuple[ast.expr, tuple[int, int]]]:
    """Find norms of all rows of a large embedding in a step, with the size of the embedding."""
    if "embeddings" not in source.words or not step_loops.step_events(source):
        return
    every = file_events(source)
    tables_made = {id(e.node): size for e in every if (size := _large_table_size(e)) is not None}
    seen: set[ast.expr] = set()
    for event in every:
        given = event.given.get("", 0)
        whole = given.kind == "method" and given.name == "embeddings" and given.data is not None
        size = tables_made.get(id(given.data.node)) if whole else None
        norm = (
            event.name.startswith(("tensorflow.", "keras.ops."))
            and event.name.rpartition(".")[2] in whole_tables.NORM_FUNCTIONS
        )
        if size is not None and norm and event.graph and event.node not in seen and not _runs_heavy_ops(every, size[0]):
            seen.add(event.node)
            yield event.node, size


def table_wide_ops(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Find ops on all rows of a large table before a lookup in a step, with the number of rows."""
    every = file_events(source)
    by_row = {
        id(e.result): (e, rows)
        for e in every
        if e.graph
        and e.name in (*cured.ELEMENTWISE_FUNCTIONS, *cured.ROW_FUNCTIONS)
        and (rows := _row_wise_table_rows(e)) is not None
    }
    for event in every if by_row else ():
        if event.name in LOOKUP_FUNCTIONS and event.given.args and id(event.given.args[0]) in by_row:
            made, rows = by_row.pop(id(event.given.args[0]))
            if isinstance(made.node, ast.Call):
                yield made.node, rows


def _row_wise_table_rows(event: Event) -> int | None:
    table = event.given.args[0] if event.given.args else None
    axis = event.given.get("axis", 1).known
    if event.name in cured.ROW_FUNCTIONS and axis not in (1, -1) and "softmax" not in event.name:
        return None
    shape = table.shape if table is not None and table.kind == "variable" else None
    return (
        shape[0]
        if shape is not None and len(shape) == 2 and (shape[0] or 0) >= whole_tables.MIN_LARGE_TABLE_ROWS
        else None
    )
