"""The random image work at the end of a mapped function, and the function without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine.interpreter import value_at
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Keras layers that keep the size of images, do nothing in inference, and draw for each image of a batch. RandomCrop
# cuts one place from a whole batch; RandomGaussianBlur, RandAugment and AugMix draw one kernel or one list of changes.
PER_IMAGE_LAYERS = frozenset(
    "RandomFlip RandomRotation RandomZoom RandomTranslation RandomContrast RandomBrightness RandomShear RandomHue "
    "RandomSaturation RandomSharpness RandomColorJitter".split()
)
INPUT_CLASSES = frozenset({"Input", "InputLayer"})
LEGACY_WORDS = frozenset({"tf_keras", "TF_USE_LEGACY_KERAS"})  # Keras 2, whose RandomContrast draws once for a batch
FIXED_LAYERS = frozenset({"Rescaling", "Resizing", "CenterCrop"})
# Ops of TensorFlow that draw for each image of a batch, with the Keras layer that does the same in training.
FLIP_LAYERS = {"random_flip_left_right": '"horizontal"', "random_flip_up_down": '"vertical"'}
# They draw once in each call: the same only where the map gets whole batches already.
PER_CALL_OPS = frozenset({"random_brightness", "random_contrast", "random_saturation", "random_hue"})
RANDOM_MODULES = ("tensorflow.random.", "tensorflow.image.random_", "tensorflow.image.stateless_random_",
                  "keras.random.", "numpy.random.", "random.")  # fmt: skip

Function = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class AugmentedMap:
    """A map whose function ends with random work on images.

    ``calls`` run one after the other on the first part of the element, or on the element if ``whole``. ``edits`` remove
    them from the function, and remove the map if nothing is left of it.
    """

    operation: ast.Call
    calls: tuple[ast.Call, ...]
    whole: bool
    edits: tuple[Edit, ...]


def is_layer_call(source: Source, call: ast.Call) -> bool:
    """Whether ``call`` applies a movable layer, or a ``Sequential`` of such layers, in training mode."""
    always = all(k.arg == "training" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords)
    plain = len(call.args) == 1 and not isinstance(call.args[0], (ast.Starred, ast.Dict, ast.Tuple, ast.List))
    return always and plain and _is_movable_layer(source, value_at(source, call.func))


def _is_movable_layer(source: Source, layer: Value) -> bool:
    made = layer.node
    if layer.kind != "keras" or not isinstance(made, ast.Call):
        return False
    if layer.name.rpartition(".")[2] == "Sequential":
        layers = [p for p in _listed_layers(made) if node_lookup.called_name(p) not in INPUT_CLASSES]
        return bool(layers) and all(_makes_movable_layer(source, p) for p in layers)
    return _makes_movable_layer(source, made)


def _listed_layers(made: ast.Call) -> list[ast.Call]:
    """The calls in the list of a ``Sequential``; empty if something else is in it."""
    listed = node_lookup.argument_value(made, "layers", 0)
    parts = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    calls = [p for p in parts if isinstance(p, ast.Call)]
    return calls if len(calls) == len(parts) else []


def _makes_movable_layer(source: Source, made: ast.Call) -> bool:
    name = name_bindings.qualified_name(source, made.func)
    settings = {k.arg for k in made.keywords}
    movable = PER_IMAGE_LAYERS - ({"RandomContrast"} if LEGACY_WORDS & source.words else frozenset())
    return name.startswith("keras.") and name.rpartition(".")[2] in movable and not settings & {None, "dtype"}


def image_op(source: Source, call: ast.Call) -> str:
    """``random_hue`` of ``tf.image.random_hue(x, 0.1)`` with constant arguments; else ""."""
    module, _, name = name_bindings.qualified_name(source, call.func).rpartition(".")
    others = [*call.args[1:], *(k.value for k in call.keywords)]
    settings = all(
        isinstance(n, (ast.Constant, ast.UnaryOp, ast.USub)) for one in others for n in syntax_tree.walk(one)
    )
    return name if module == "tensorflow.image" and call.args and settings else ""


def augmented_map(source: Source, operation: ast.Call, *, batched: bool) -> AugmentedMap | None:
    """The random work at the end of the function of ``operation``, a ``map``; None if some of it has to stay there.

    ``batched``: the function gets whole batches, so that one draw in each call stays one draw for each batch.
    """
    function = _only_mapped_function(source, operation)
    result = _single_result(function) if function is not None else None
    if function is None or result is None:
        return None
    whole = not isinstance(result, ast.Tuple)
    first = result.elts[0] if isinstance(result, ast.Tuple) and result.elts else result
    if isinstance(first, (ast.Starred, ast.Dict, ast.List)):
        return None
    found = _TrailingCalls(source, function, batched)
    found.follow(first, len(scope_names.scope_body(function)) - 1)
    if not found.calls or any(call not in found.calls for call in _random_calls(source, function)):
        return None
    changed = found.edits
    if _returns_parameters(function, result, found):
        changed = [*chain_edits.remove_operation(source, operation), *_without_function(source, function)]
    return AugmentedMap(operation, tuple(found.calls[::-1]), whole, tuple(changed))


def _only_mapped_function(source: Source, operation: ast.Call) -> Function | None:
    """The lambda, or the plain function of the file that nothing else uses."""
    given = operation.args[0] if operation.args else None
    if isinstance(given, ast.Lambda):
        return given
    found = node_lookup.function_named(source, given.id, operation) if isinstance(given, ast.Name) else None
    if found is None or not isinstance(given, ast.Name) or found.decorator_list:
        return None
    return found if name_bindings.reads_of(source, given.id) == [given] else None


def _single_result(function: Function) -> ast.expr | None:
    """What a function returns in its last statement, its only ``return``."""
    if isinstance(function, ast.Lambda):
        return function.body
    last = function.body[-1]
    result = scope_names.single_return(function)
    return result if isinstance(last, ast.Return) and last.value is result else None


class _TrailingCalls:
    """Follows a result backwards through movable calls, the last one first. ``removed``: statements that go."""

    def __init__(self, source: Source, function: Function, batched: bool) -> None:
        self.source, self.batched = source, batched
        self.body = scope_names.scope_body(function)
        self.calls: list[ast.Call] = []
        self.edits: list[Edit] = []
        self.removed: list[ast.AST] = []
        self.start: ast.expr | None = None

    def follow(self, value: ast.expr, at: int) -> None:
        """Follows ``value`` of the statement number ``at`` of the body."""
        inner = value
        while isinstance(inner, ast.Call) and self._is_movable(inner):
            self.calls.append(inner)
            inner = inner.args[0]
        statement = self.body[at]
        if inner is not value:
            self._remove_calls(statement, value, inner)
        self.start = inner
        before = self._augmenting_assignment(inner.id, at) if isinstance(inner, ast.Name) else None
        if before is not None:
            self.follow(*before)

    def _is_movable(self, call: ast.Call) -> bool:
        if is_layer_call(self.source, call):
            return True
        name = image_op(self.source, call)
        return name in FLIP_LAYERS or (self.batched and name in PER_CALL_OPS)

    def _remove_calls(self, statement: ast.AST, value: ast.expr, inner: ast.expr) -> None:
        same = isinstance(statement, ast.Assign) and ast.dump(statement.targets[0]).replace("Store", "Load")
        if isinstance(statement, ast.Assign) and statement.value is value and same == ast.dump(inner):
            self.removed.append(statement)
            self.edits.append(edits.remove_statement(self.source, statement))
        else:
            text = edits.node_text(self.source, inner)
            self.edits.append(edits.replace_node(self.source, value, text))

    def _augmenting_assignment(self, name: str, at: int) -> tuple[ast.Call, int] | None:
        """The call that gives ``name`` its value before statement ``at``, and the number of its statement.

        None unless it is movable, and only statement ``at`` reads the name.
        """
        bound = [n for n in range(at) if name in scope_names.bound_names(self.body[n])]
        if not bound:
            return None
        one = self.body[bound[-1]]
        plain = isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name)
        if not plain or not isinstance(one, ast.Assign) or not isinstance(one.value, ast.Call):
            return None
        again = name in scope_names.bound_names(self.body[at])
        readers = self.body[bound[-1] + 1 : at + 1 if again else len(self.body)]
        reads = [n for s in readers for n in syntax_tree.walk(s) if scope_names.is_name(n, name) and _is_load(n)]
        return (one.value, bound[-1]) if len(reads) == 1 and self._is_movable(one.value) else None


def _is_load(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _random_calls(source: Source, function: Function) -> Iterator[ast.Call]:
    """The calls that draw at random, in functions of the file that ``function`` calls too."""
    for part in source.reachable_functions(function):
        for call in (n for n in syntax_tree.walk(part) if isinstance(n, ast.Call)):
            layer = value_at(source, call.func)
            random = layer.kind == "keras" and not _is_fixed_layer(layer)
            if random or name_bindings.qualified_name(source, call.func).startswith(RANDOM_MODULES):
                yield call


def _is_fixed_layer(layer: Value) -> bool:
    """Whether a layer, or each layer of a ``Sequential``, gives the same result for the same image."""
    made = layer.node
    if layer.name.rpartition(".")[2] == "Sequential" and isinstance(made, ast.Call):
        names = {node_lookup.called_name(p) for p in _listed_layers(made)}
        return bool(names) and names <= FIXED_LAYERS | INPUT_CLASSES
    return layer.name.rpartition(".")[2] in FIXED_LAYERS


def _returns_parameters(function: Function, result: ast.expr, found: _TrailingCalls) -> bool:
    """Whether nothing but ``return x, y`` is left of the function, with its parameters in their order."""
    if isinstance(function, ast.FunctionDef):
        left = [s for s in function.body[:-1] if s not in found.removed and not _is_docstring(s)]
        if left:
            return False
    parts = [found.start, *result.elts[1:]] if isinstance(result, ast.Tuple) else [found.start]
    return [getattr(p, "id", None) for p in parts] == scope_names.parameter_names(function)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _without_function(source: Source, function: Function) -> Sequence[Edit]:
    """The file without the lines of a function and the blank lines below it."""
    if isinstance(function, ast.Lambda):
        return ()
    block = scope_names.statement_block(source, function)
    after = block[block.index(function) + 1 :]
    gone = edits.remove_statement(source, function)
    rows = source.text.split("\n")[gone.end[0] - 1 :]
    blank = next((n for n, row in enumerate(rows) if row.strip()), 0) if after else 0
    return [Edit(gone.file, gone.start, (gone.end[0] + blank, 0), gone.text)]
