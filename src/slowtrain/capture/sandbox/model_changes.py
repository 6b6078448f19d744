"""Changes of a Keras model that ``slowtrain shrink`` compares, made while the script runs as it is written.

A layer is called by its class and the order in which layers of that class are created, ``Conv2D#3``. Names of layers
are no help, because a change of one layer renames others.
"""

from __future__ import annotations

import functools
import gc
import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import user_code
from slowtrain.capture.sandbox.treatments import COMPILE_OWNERS, FIT_OWNERS, OriginalFunction, wrap_on_import

WIDTH_ATTRIBUTES = {
    "Dense": "units", "Conv1D": "filters", "Conv2D": "filters", "Conv3D": "filters", "SeparableConv2D": "filters",
    "Conv2DTranspose": "filters", "LSTM": "units", "GRU": "units", "SimpleRNN": "units",
}  # fmt: skip
SEPARABLE_CLASSES = {"Conv1D": "SeparableConv1D", "Conv2D": "SeparableConv2D"}
SEPARATOR = "+"  # between layers in the name of a change
PICTURE_RANK = 4  # batch, height, width, channels
MIN_PICTURE_SIDE = 16  # pixels of the smaller picture
KEPT_WEIGHT_SHARE = 0.5  # of each matrix, after pruning


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


def halve_widths(created: CreatedLayers, layers: str) -> None:
    """Gives these layers half of their units or filters."""
    wanted = frozenset(layers.split(SEPARATOR))

    def change(number: str, layer: Any) -> None:
        if number in wanted:
            attribute = WIDTH_ATTRIBUTES[type(layer).__name__]
            _set_width(layer, attribute, max(getattr(layer, attribute) // 2, 1))

    created.after_creation(change)


def _set_width(layer: Any, attribute: str, width: int) -> None:
    cell = getattr(layer, "cell", None)
    if cell is None:
        setattr(layer, attribute, width)
        return
    cell.units = cell.output_size = width
    cell.state_size = [width, width] if isinstance(cell.state_size, (list, tuple)) else width


def separate_convolutions(created: CreatedLayers, layers: str) -> None:
    """Replaces these convolutions by depthwise separable ones."""
    wanted = frozenset(layers.split(SEPARATOR))

    def patch(keras: Any) -> None:
        for name, separable in SEPARABLE_CLASSES.items():
            kind, other = getattr(keras.layers, name), getattr(keras.layers, separable)
            counts = [0]
            original = kind.__new__

            def create(cls: Any, *args: Any, kind: Any = kind, other: Any = other, name: str = name,
                       counts: list[int] = counts, original: Any = original, **kwargs: Any) -> Any:  # fmt: skip
                counts[0] += cls is kind
                if cls is not kind or f"{name}#{counts[0]}" not in wanted:
                    return original(cls, *args, **kwargs)
                given = inspect.signature(kind.__init__).bind_partial(None, *args, **kwargs).arguments
                given |= given.pop("kwargs", {})
                known = inspect.signature(other.__init__).parameters
                return other(**{k: v for k, v in given.items() if k in known and k != "self"})

            kind.__new__ = staticmethod(create)

    patch_on_import(created.recorder, "keras", patch)


def freeze_parts(created: CreatedLayers, names: str) -> None:
    """Freezes the parts of a model with these names when the model is compiled."""
    wanted = frozenset(names.split(SEPARATOR))

    def compile_frozen(original: OriginalFunction, model: Any, args: Any, kwargs: Any) -> Any:
        for part in model.layers:
            if part.name in wanted:
                part.trainable = False
        return original(*args, **kwargs)

    for module, owner in COMPILE_OWNERS:
        wrap_on_import(created.recorder, module, f"{owner}.compile", compile_frozen)


def halve_pictures(created: CreatedLayers, _: str) -> None:
    """Halves height and width of a model's input, and of the pictures that ``fit`` gets."""

    def smaller(shape: Any) -> Any:
        if shape is None or len(shape) != PICTURE_RANK - 1 or not all(isinstance(n, int) for n in shape):
            return shape
        height, width, channels = shape
        return shape if min(height, width) < 2 * MIN_PICTURE_SIDE else (height // 2, width // 2, channels)

    depth = [0]  # of calls that are inside one another: Input makes an InputLayer

    def input_smaller(original: OriginalFunction, _module: Any, args: Any, kwargs: Any) -> Any:
        if not depth[0]:
            args = (smaller(args[0]), *args[1:]) if args else args
            kwargs = {k: smaller(v) if k in ("shape", "input_shape") else v for k, v in kwargs.items()}
        depth[0] += 1
        try:
            return original(*args, **kwargs)
        finally:
            depth[0] -= 1

    def patch(keras: Any) -> None:
        for owner in (keras, keras.layers):
            wrapt.wrap_function_wrapper(owner, "Input", input_smaller)
        for name in ("InputLayer", "Layer"):
            wrapt.wrap_function_wrapper(getattr(keras.layers, name), "__init__", input_smaller)

    def fit_smaller(original: OriginalFunction, _model: Any, args: Any, kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs)
        given = bound.arguments
        given["x"] = _smaller_data(given.get("x"))
        held_out = given.get("validation_data")
        if isinstance(held_out, (tuple, list)) and len(held_out) > 1:
            given["validation_data"] = (_smaller_data(held_out[0]), *held_out[1:])
        elif held_out is not None:
            given["validation_data"] = _smaller_data(held_out)
        return original(*bound.args, **bound.kwargs)

    patch_on_import(created.recorder, "keras", patch)
    for module, owner in FIT_OWNERS:
        wrap_on_import(created.recorder, module, f"{owner}.fit", fit_smaller)


def _smaller_data(data: Any) -> Any:
    tensorflow = sys.modules["tensorflow"]

    def resize_pictures(x: Any) -> Any:
        if len(x.shape) != PICTURE_RANK:
            return x
        small = tensorflow.image.resize(x, (x.shape[1] // 2, x.shape[2] // 2))
        return tensorflow.cast(small, x.dtype)

    if isinstance(data, tensorflow.data.Dataset):
        if isinstance(data.element_spec, tuple):
            return data.map(lambda x, *rest: (resize_pictures(x), *rest), tensorflow.data.AUTOTUNE)
        return data.map(resize_pictures, tensorflow.data.AUTOTUNE)
    return resize_pictures(data).numpy() if hasattr(data, "shape") else data


def recompute_activations(created: CreatedLayers, _: str) -> None:
    """Lets the backward pass compute activations again instead of keeping them.

    The mode is not "full", because TensorFlow's gradients then accept no keyword such as ``training``.
    """

    def patch(keras: Any) -> None:
        keras.RematScope(mode="activations").__enter__()

    patch_on_import(created.recorder, "keras", patch)


def accumulate_gradients(created: CreatedLayers, count: str) -> None:
    """Applies the mean gradient of so many batches at once."""

    def create(original: OriginalFunction, _optimizer: Any, args: Any, kwargs: Any) -> None:
        original(*args, **{**kwargs, "gradient_accumulation_steps": int(count)})

    wrap_on_import(created.recorder, "keras.src.optimizers.base_optimizer", "BaseOptimizer.__init__", create)


def prune_half(created: CreatedLayers, _: str) -> None:
    """Sets the smaller half of each weight matrix to zero before ``fit``, and keeps it there while training."""

    def fit_pruned(original: OriginalFunction, model: Any, args: Any, kwargs: Any) -> Any:
        created.recorder.guard("prune", _prune_weights, model)
        return original(*args, **kwargs)

    for module, owner in FIT_OWNERS:
        wrap_on_import(created.recorder, module, f"{owner}.fit", fit_pruned)


def _prune_weights(model: Any) -> None:
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            mask = kept_weights(variable)
            variable.assign(variable * mask)
            variable.constraint = lambda weights, mask=mask: weights * mask


def kept_weights(variable: Any) -> Any:
    """Returns 1 for the larger half of a matrix's weights and 0 for the others, by magnitude."""
    import numpy as np

    size = np.abs(np.asarray(variable))
    return (size >= np.quantile(size, 1 - KEPT_WEIGHT_SHARE)).astype(size.dtype)


def use_bfloat16(created: CreatedLayers, _: str) -> None:
    """Sets Keras' policy to ``mixed_bfloat16`` at the start."""
    patch_on_import(created.recorder, "keras", lambda keras: keras.mixed_precision.set_global_policy("mixed_bfloat16"))


MODEL_CHANGES: dict[str, Callable[[CreatedLayers, str], None]] = {
    "half-width": halve_widths,
    "separable": separate_convolutions,
    "frozen": freeze_parts,
    "half-pictures": halve_pictures,
    "recompute": recompute_activations,
    "accumulate": accumulate_gradients,
    "pruned": prune_half,
    "mixed-bfloat16": use_bfloat16,
}
"""By the name in a plan, ``NAME@WHAT``; ``WHAT`` is for the change to read."""


def install_model_changes(recorder: Recorder, names: list[str]) -> CreatedLayers:
    """Installs the changes and the inventory of the model. Returns what notes it."""
    created = CreatedLayers(recorder)
    created.install()
    for one in names:
        name, _, what = one.partition("@")
        MODEL_CHANGES[name](created, what)
    return created
