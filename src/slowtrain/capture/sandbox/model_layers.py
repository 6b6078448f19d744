"""What a Keras model consists of, by its layers.

A layer is called by its class and the order in which layers of that class are created, ``Conv2D#3``. Names of layers
are no help, because a change of one layer renames others.
"""

from __future__ import annotations

import functools
import gc
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import user_code
from slowtrain.capture.sandbox.treatments import OriginalFunction

WIDTH_ATTRIBUTES = {
    "Dense": "units", "Conv1D": "filters", "Conv2D": "filters", "Conv3D": "filters", "SeparableConv2D": "filters",
    "Conv2DTranspose": "filters", "LSTM": "units", "GRU": "units", "SimpleRNN": "units",
}  # fmt: skip
PRODUCT_CLASSES = ("Dense", "EinsumDense")  # that Keras quantises
ATTENTION_CLASSES = ("MultiHeadAttention", "GroupQueryAttention")
PICTURE_RANK = 4  # batch, height, width, channels


class CreatedLayers:
    """Numbers the layers of the classes whose width can change, and notes what the model consists of."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.created: list[tuple[str, Any, tuple[str, int] | None]] = []  # (number, weak reference, user's line)
        self._counts: dict[str, int] = {}
        self._after: list[Callable[[str, Any], None]] = []

    def install(self) -> None:
        patch_on_import(self.recorder, "keras", self._patch_classes)

    def after_creation(self, change: Callable[[str, Any], None]) -> None:
        """Calls ``change(number, layer)`` after each layer's constructor, before the layer has weights."""
        self._after.append(change)

    def _patch_classes(self, keras: Any) -> None:
        for name in WIDTH_ATTRIBUTES:
            kind = getattr(keras.layers, name)
            wrapt.wrap_function_wrapper(kind, "__init__", functools.partial(self._create, kind))

    def _create(self, kind: type, original: OriginalFunction, layer: Any, args: Any, kwargs: Any) -> None:
        original(*args, **kwargs)
        if type(layer) is kind:
            self.recorder.guard("layers", self._number, layer)

    def _number(self, layer: Any) -> None:
        kind = type(layer).__name__
        self._counts[kind] = self._counts.get(kind, 0) + 1
        number = f"{kind}#{self._counts[kind]}"
        self.created.append((number, weakref.ref(layer), user_code.user_place(sys._getframe(1))))
        for change in self._after:
            change(number, layer)

    def note(self) -> None:
        """Records the fact ``model``: what the largest model that is alive consists of."""
        model = largest_model()
        if model is None:
            return
        known = {id(layer): (number, place) for number, ref, place in self.created if (layer := ref()) is not None}
        outputs = {id(layer) for layer in _output_layers(model, known)}
        rows = []
        for layer in leaf_layers(model):
            number, place = known.get(id(layer), ("", None))
            rows.append(
                {
                    "name": layer.name,
                    "class": type(layer).__name__,
                    "number": number,
                    "width": getattr(layer, WIDTH_ATTRIBUTES.get(type(layer).__name__, ""), 0),
                    "kernel": math.prod(getattr(layer, "kernel_size", ()) or (1,)),
                    "parameters": layer.count_params() if layer.built else 0,
                    "output": id(layer) in outputs,
                    "place": place,
                }
            )
        keras_model = sys.modules["keras"].Model
        parts = [part for part in model.layers if isinstance(part, keras_model) and part.built]
        about = {
            "class": type(model).__name__,
            "parameters": model.count_params(),
            "picture": _picture_shape(model),
            "layers": rows,
            "backbones": [{"name": part.name, "parameters": part.count_params()} for part in parts],
            "compiled": bool(getattr(model, "compiled", False) or getattr(model, "_is_compiled", False)),
            "keras": sys.modules["keras"].__version__,
            "products": sum(row["class"] in PRODUCT_CLASSES for row in rows),
            "attention": [
                {"dropout": attention_dropout(layer), "dtype": layer.compute_dtype}
                for layer in _attention_layers(model)
            ],
        }
        self.recorder.fact("model", about)


def largest_model() -> Any:
    """Returns the built Keras model with the most parameters, or None."""
    model_class = getattr(sys.modules.get("keras"), "Model", None)
    if model_class is None:
        return None
    # type(), because an object of the user's may claim to be anything.
    found = [one for one in gc.get_objects() if issubclass(type(one), model_class) and one.built]
    return max(found, key=lambda one: one.count_params(), default=None)


def leaf_layers(model: Any) -> list[Any]:
    """Returns the layers of a model and of the models in it, without these models themselves."""
    return [one for one in model._flatten_layers(include_self=False) if not list(one._flatten_layers())[1:]]


def _attention_layers(model: Any) -> list[Any]:
    kinds = layer_classes(sys.modules["keras"], ATTENTION_CLASSES)
    return [one for one in model._flatten_layers() if isinstance(one, kinds)]


def layer_classes(keras: Any, names: tuple[str, ...]) -> tuple[type, ...]:
    """Returns the classes of layers with these names that this version of Keras has."""
    return tuple(getattr(keras.layers, name) for name in names if hasattr(keras.layers, name))


def attention_dropout(layer: Any) -> float:
    """Returns the share of the attention weights that the layer drops while training."""
    return float(getattr(layer, "_dropout", getattr(layer, "dropout", 0.0)))


def _output_layers(model: Any, known: Any) -> Iterator[Any]:
    """Returns the layers whose width the task sets: the last with a width on each way to an output."""
    outputs = getattr(model, "outputs", None)
    if not outputs:  # a class of the user's
        sized = [layer for layer in leaf_layers(model) if id(layer) in known]
        yield from sized[-1:]
        return
    todo, seen = [tensor._keras_history[0] for tensor in outputs], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if id(one) in known:
            yield one
        elif hasattr(one, "outputs") and hasattr(one, "layers") and one.outputs:  # a model inside the model
            todo += [tensor._keras_history[0] for tensor in one.outputs]
        elif one._inbound_nodes:
            todo += _layers_before(one)


def _layers_before(layer: Any) -> list[Any]:
    node = layer._inbound_nodes[-1]
    return [one.operation if hasattr(one, "operation") else one.layer for one in node.parent_nodes]


def _picture_shape(model: Any) -> list[int] | None:
    """Returns height, width and channels of the model's input, if it is one batch of pictures."""
    inputs: Any = getattr(model, "inputs", None) or ()  # input_shape needs a library that is gone when a process ends
    shape = tuple(inputs[0].shape) if len(inputs) == 1 else ()
    if len(shape) != PICTURE_RANK or not all(isinstance(n, int) for n in shape[1:]):
        return None
    return list(shape[1:])
