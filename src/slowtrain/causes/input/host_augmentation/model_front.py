"""The front of a Keras model as the text builds it, and how a layer of the script is written there."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slowtrain.causes.input.host_augmentation.mapped_augmentation import INPUT_CLASSES
from slowtrain.model import Edit
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine.interpreter import project_events, value_at
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Attributes of a model that mean the same with random layers at its front. ``load_weights`` may read a file of the
# model without them; ``layers`` counts them.
KEPT_ATTRIBUTES = frozenset(
    "compile fit evaluate predict predict_on_batch test_on_batch summary save save_weights export stop_training "
    "optimizer metrics metrics_names name trainable add".split()
)
SHAPE_SETTINGS = frozenset({"input_dim", "input_shape", "batch_input_shape", "batch_shape"})
READERS = (ast.Call, ast.Assign, ast.List, ast.Tuple, ast.BinOp)  # nodes in which the input may be replaced


@dataclass(frozen=True)
class ModelFront:
    """Where the first layers of a model are in the text. ``insert_layers`` puts layers there, given as texts."""

    node: ast.AST
    insert_layers: Callable[[Sequence[str]], list[Edit]]


def front_of_model(source: Source, made: ast.Call) -> ModelFront | None:
    """The front of a ``Sequential`` or a functional model with one input; None if the text does not show it."""
    if not keras_models.is_model(source, made):
        return None
    if node_lookup.called_name(made) == "Model":
        return _front_of_functional(source, made)
    listed = node_lookup.argument_value(made, "layers", 0)
    if isinstance(listed, (ast.List, ast.Tuple)):
        return _front_of_list(source, listed)
    return _front_of_additions(source, made) if listed is None else None


def _front_of_list(source: Source, listed: ast.List | ast.Tuple) -> ModelFront | None:
    at = 1 if listed.elts and _is_input(listed.elts[0]) else 0
    if at >= len(listed.elts):
        return None
    after, shape = listed.elts[at], _shape_edits(source, listed.elts[0]) if at == 0 else ([], [])
    row = source.text.split("\n")[after.lineno - 1].encode()[: after.col_offset].decode()
    begins = row.rstrip().endswith(("[", "(", ",")) or not row.strip()
    if shape is None or not begins:
        return None
    separator = ", " if row.strip() else f",\n{row}"
    inputs, more = shape

    def insert_layers(texts: Sequence[str]) -> list[Edit]:
        text = "".join(f"{one}{separator}" for one in (*inputs, *texts))
        return [edits.insert_text(source, edits.node_start(after), text), *more]

    return ModelFront(after, insert_layers)


def _is_input(node: ast.expr) -> bool:
    """Whether it is ``keras.Input(shape)`` of the usual dtype, to which Keras casts images."""
    is_class = isinstance(node, ast.Call) and node_lookup.called_name(node) in INPUT_CLASSES
    return isinstance(node, ast.Call) and is_class and node_lookup.argument_value(node, "dtype") is None


def _shape_edits(source: Source, first: ast.expr) -> tuple[list[str], list[Edit]] | None:
    """``keras.Input(shape)`` in place of the setting ``input_shape`` of the first layer; None if it has another."""
    if not isinstance(first, ast.Call) or not name_bindings.qualified_name(source, first.func).startswith(
        "keras.layers."
    ):
        return ([], []) if not isinstance(first, ast.Call) or _is_application(source, first) else None
    settings = {k.arg for k in first.keywords} & SHAPE_SETTINGS
    shape = node_lookup.argument_value(first, "input_shape")
    if node_lookup.called_name(first) in INPUT_CLASSES or settings - {"input_shape"}:
        return None
    if shape is None:
        return [], []
    keras, imported = keras_models.keras_reference(source)
    text = f"{keras}.Input({edits.node_text(source, shape)})"
    return [text], [*imported, *edits.remove_keyword(source, first, "input_shape")]


def _is_application(source: Source, first: ast.Call) -> bool:
    return name_bindings.qualified_name(source, first.func).startswith("keras.applications.")


def _front_of_additions(source: Source, made: ast.Call) -> ModelFront | None:
    """The front of a model to which ``model.add(layer)`` adds its layers."""
    added = [
        call for call in call_index.index_of(source).calls_of("add")
        if isinstance(call.func, ast.Attribute) and value_at(source, call.func.value).node is made
    ]  # fmt: skip
    statements = [node_lookup.enclosing_statement(source, call) for call in added]
    plain = all(isinstance(s, ast.Expr) and s.value is c for s, c in zip(statements, added, strict=True))
    if not added or not plain or any(len(call.args) != 1 for call in added):
        return None
    at = 1 if _is_input(added[0].args[0]) else 0
    if at >= len(added) or scope_names.enclosing_loops(source, added[at]):
        return None
    shape = _shape_edits(source, added[0].args[0]) if at == 0 else ([], [])
    before, owner = statements[at], added[at].func
    if shape is None or not isinstance(before, ast.stmt) or not isinstance(owner, ast.Attribute):
        return None
    inputs, more = shape
    name = edits.node_text(source, owner.value)

    def insert_layers(texts: Sequence[str]) -> list[Edit]:
        rows = "\n".join(f"{name}.add({one})" for one in (*inputs, *texts))
        return [edits.insert_before(source, before, rows), *more]

    return ModelFront(before, insert_layers)


def _front_of_functional(source: Source, made: ast.Call) -> ModelFront | None:
    """The places that read the only input of ``keras.Model(inputs, outputs)``."""
    given = node_lookup.argument_value(made, "inputs", 0)
    if isinstance(given, ast.List) and len(given.elts) == 1:
        given = given.elts[0]
    if not isinstance(given, ast.Name):
        return None
    name, scope = given.id, name_bindings.binding_scope(source, given, given.id)
    bound = name_bindings.bindings_of(scope, name)
    holder = node_lookup.enclosing_statement(source, bound[0]) if len(bound) == 1 else None
    if not isinstance(holder, ast.Assign) or not _is_input(holder.value):
        return None
    inside = set(syntax_tree.walk(made))
    reads = [
        n for n in name_bindings.reads_of(source, name)
        if n not in inside and name_bindings.binding_scope(source, n, name) is scope
    ]  # fmt: skip
    above = node_lookup.parents_of(source)
    if not reads or not all(isinstance(above.get(n), READERS) for n in reads):
        return None
    several = f"augmented_{name}"
    if len(reads) > 1 and several in source.words:
        return None

    def insert_layers(texts: Sequence[str]) -> list[Edit]:
        text = name
        for one in texts:
            text = f"{one}({text})"
        if len(reads) == 1:
            return [edits.replace_node(source, reads[0], text)]
        renamed = [edits.replace_node(source, one, several) for one in reads]
        return [edits.insert_after(source, holder, f"{several} = {text}"), *renamed]

    return ModelFront(reads[0], insert_layers)


def is_used_as_before(source: Source, model: Value) -> bool:
    """Whether random layers at the front of ``model`` change its training only.

    They are inactive in ``evaluate`` and ``predict``. ``model(x)`` without ``training=False`` runs them.
    """
    for event in project_events(source):
        unseen = not event.name or event.name.startswith(("keras.", "tensorflow."))
        if unseen and any(_is_same(one, model) for given in event.given.every for one in given.nested_values(2)):
            return False
        if event.on is None or not _is_same(event.on, model):
            continue
        if event.name == "__call__" and event.given.get("training").known is not False:
            return False
        if event.name == ".compile" and event.given.get("jit_compile").known is True:
            return False  # XLA cannot compile all random layers
    attributes = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Attribute)]
    own = [n for n in attributes if n.attr not in KEPT_ATTRIBUTES]
    return not any(_is_same(value_at(source, n.value), model) for n in own)


def _is_same(value: Value, model: Value) -> bool:
    return value.kind == model.kind and value.node is model.node


def layer_text(
    source: Source, layer: ast.expr, place: ast.AST, line: int, moved: Sequence[ast.expr]
) -> tuple[str, list[Edit]] | None:
    """How ``layer``, which a map calls, is written at ``place``, and the edits that this needs.

    ``line``: the line of the module that runs the place. ``moved``: the reads of layers that go away. Where its name
    does not reach, its definition moves. None if neither is possible.
    """
    if isinstance(layer, ast.Call):
        return (edits.node_text(source, layer), []) if _has_known_names(source, layer, line) else None
    if not isinstance(layer, ast.Name):
        return None
    scope = name_bindings.binding_scope(source, layer, layer.id)
    bound = name_bindings.bindings_of(scope, layer.id)
    holder = node_lookup.enclosing_statement(source, bound[0]) if len(bound) == 1 else None
    if not isinstance(holder, ast.Assign) or len(holder.targets) != 1 or not isinstance(holder.value, ast.Call):
        return None
    others = [n for n in name_bindings.reads_of(source, layer.id) if n not in moved]
    if not all(_is_plain_use(source, one) for one in others):
        return None
    block = scope_names.statement_block(source, holder)
    first = line if scope is source.tree else getattr(place, "lineno", 0)
    reached = name_bindings.binding_scope(source, place, layer.id) is scope
    if reached and holder.lineno < first and block is getattr(scope, "body", None):
        return layer.id, []
    if others or len(block) < 2 or not _has_known_names(source, holder.value, line):
        return None
    return edits.node_text(source, holder.value), [edits.remove_statement(source, holder)]


def _is_plain_use(source: Source, layer: ast.Name) -> bool:
    """Whether a read of a layer calls it for some images, and does not put it into a model."""
    call = node_lookup.parents_of(source).get(layer)
    return isinstance(call, ast.Call) and call.func is layer and value_at(source, call).name != "symbolic"


def _has_known_names(source: Source, node: ast.expr, line: int) -> bool:
    """Whether the module binds each name in ``node`` once, before ``line``."""
    for name in scope_names.read_names(node):
        bound = name_bindings.bindings_of(source.tree, name)
        holder = node_lookup.enclosing_statement(source, bound[0]) if len(bound) == 1 else None
        if holder is None or holder not in source.tree.body or holder.lineno >= line:
            return False
    return True
