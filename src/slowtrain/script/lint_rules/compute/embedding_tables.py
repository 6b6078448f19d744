"""The optimizers of a file, and work on all rows of a large table in each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

ADAM_CLASSES = frozenset({"adam", "adamw", "nadam", "adamax"})  # they keep averages of every weight and update each one
NAME_LOADERS = frozenset({"get", "deserialize"})
MAX_DEPTH = 5
HEAVY_OPS = frozenset(
    "Conv1D Conv2D Conv3D Conv2DTranspose SeparableConv2D DepthwiseConv2D LSTM GRU SimpleRNN RNN Bidirectional "
    "MultiHeadAttention ConvLSTM2D conv1d conv2d conv3d".split()
)
NORM_CLASSES = frozenset({"L2", "l2", "L1", "l1", "L1L2", "l1_l2", "OrthogonalRegularizer"})
VARIABLE_ATTRIBUTES = frozenset({"trainable_variables", "trainable_weights", "weights", "variables"})
NORM_FUNCTIONS = frozenset({"l2_loss", "reduce_sum", "reduce_mean", "norm", "sum", "mean"})


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


def embedding_penalty(source: Source, call: ast.Call) -> ast.expr | None:
    """Return the regulariser of an ``Embedding``. Its gradient has all rows."""
    given = node_lookup.argument_value(call, "embeddings_regularizer", 3)
    written = setting_origins.written_value(source, given) if given is not None else None
    if isinstance(written, ast.Constant):
        return given if isinstance(written.value, str) and written.value in NORM_CLASSES else None
    if not isinstance(written, ast.Call) or node_lookup.called_name(written) not in NORM_CLASSES:
        return None
    rates = [*written.args, *(k.value for k in written.keywords)]
    none = [isinstance(r, ast.Constant) and not r.value for r in rates]
    return None if none and all(none) else given


def has_heavy_ops(source: Source, rows: int) -> bool:
    """Whether the file contains ops that may take longer than a pass over a table of this many rows."""
    if call_index.index_of(source).called(*HEAVY_OPS):
        return True
    wide = (
        queries.int_at(source, node_lookup.argument_value(c, "units", 0))
        for c in call_index.index_of(source).called("Dense")
    )
    return any(n is not None and n >= min(rows, 4096) for n in wide)


def table_norms(source: Source, tables: dict[str, ast.Call], any_of: ast.Call) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Find norms of whole tables, as in ``tf.nn.l2_loss(items.embeddings)``, with the call that makes the table.

    Also norms of all trained variables, in which case the table is ``any_of``.
    """
    for call in call_index.index_of(source).called("l2_loss"):
        holder = node_lookup.enclosing_node(source, call, *scope_names.COMPREHENSIONS)
        over = [g.iter for g in getattr(holder, "generators", ()) if not g.ifs]
        if any(isinstance(one, ast.Attribute) and one.attr in VARIABLE_ATTRIBUTES for one in over):
            yield call, any_of
    for call in call_index.index_of(source).called(*sorted(NORM_FUNCTIONS)) if "embeddings" in source.text else ():
        if not name_bindings.qualified_name(source, call.func).startswith(("tensorflow.", "keras.ops.")):
            continue
        inside = [n for a in call.args[:1] for n in syntax_tree.walk(a) if isinstance(n, ast.Attribute)]
        for one in inside:
            name = scope_names.dotted_name(one.value)
            if one.attr == "embeddings" and name in tables and not _is_looked_up(source, one):
                yield call, tables[name]
                break


def _is_looked_up(source: Source, table: ast.expr) -> bool:
    """Whether rows are looked up before any other op."""
    holder = node_lookup.parents_of(source).get(table)
    if isinstance(holder, ast.Subscript):
        return True
    return isinstance(holder, ast.Call) and node_lookup.called_name(holder) in ("gather", "embedding_lookup", "take")
