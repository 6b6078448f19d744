"""Changes of a Keras model that ``slowtrain shrink`` compares, made while the script runs as it is written."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.sandbox import model_layers
from slowtrain.capture.sandbox.model_layers import PICTURE_RANK, WIDTH_ATTRIBUTES, CreatedLayers
from slowtrain.capture.sandbox.treatments import COMPILE_OWNERS, FIT_OWNERS, OriginalFunction, wrap_on_import

SEPARABLE_CLASSES = {"Conv1D": "SeparableConv1D", "Conv2D": "SeparableConv2D"}
SEPARATOR = "+"  # between layers in the name of a change
MIN_PICTURE_SIDE = 16  # pixels of the smaller picture
KEPT_WEIGHT_SHARE = 0.5  # of each matrix, after pruning


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
            _set_constraint(variable, mask)


def _set_constraint(variable: Any, mask: Any) -> None:
    """Multiplies the variable by ``mask`` after each update."""

    def keep_zeros(weights: Any) -> Any:
        return weights * mask

    try:
        variable.constraint = keep_zeros
    except AttributeError:  # Keras 2, whose variables are TensorFlow's
        variable._constraint = keep_zeros


def kept_weights(variable: Any) -> Any:
    """Returns 1 for the larger half of a matrix's weights and 0 for the others, by magnitude."""
    import numpy as np

    size = np.abs(np.asarray(variable))
    return (size >= np.quantile(size, 1 - KEPT_WEIGHT_SHARE)).astype(size.dtype)


def use_bfloat16(created: CreatedLayers, _: str) -> None:
    """Sets Keras' policy to ``mixed_bfloat16`` at the start."""
    patch_on_import(created.recorder, "keras", lambda keras: keras.mixed_precision.set_global_policy("mixed_bfloat16"))


def use_float8(created: CreatedLayers, _: str) -> None:
    """Lets dense layers multiply their matrices in float8, while training too."""

    def set_policy(layer: Any) -> None:
        layer.dtype_policy = f"float8_from_{layer.dtype_policy.name}"

    _after_constructors(created, model_layers.PRODUCT_CLASSES, set_policy)


def fuse_attention(created: CreatedLayers, _: str) -> None:
    """Lets attention layers use the fused kernel, which drops no attention weights; fails where there is none."""

    def require_fused(layer: Any) -> None:
        setattr(layer, "_dropout" if hasattr(layer, "_dropout") else "dropout", 0.0)
        layer._flash_attention = True

    _after_constructors(created, model_layers.ATTENTION_CLASSES, require_fused)


def _after_constructors(created: CreatedLayers, names: tuple[str, ...], change: Callable[[Any], None]) -> None:
    """Changes each layer of exactly these classes after its constructor, before it has weights."""

    def create(kind: type, original: OriginalFunction, layer: Any, args: Any, kwargs: Any) -> None:
        original(*args, **kwargs)
        if type(layer) is kind:
            change(layer)

    def patch(keras: Any) -> None:
        for kind in model_layers.layer_classes(keras, names):
            wrapt.wrap_function_wrapper(kind, "__init__", functools.partial(create, kind))

    patch_on_import(created.recorder, "keras", patch)


MODEL_CHANGES: dict[str, Callable[[CreatedLayers, str], None]] = {
    "half-width": halve_widths,
    "separable": separate_convolutions,
    "frozen": freeze_parts,
    "half-pictures": halve_pictures,
    "recompute": recompute_activations,
    "accumulate": accumulate_gradients,
    "pruned": prune_half,
    "mixed-bfloat16": use_bfloat16,
    "float8": use_float8,
    "fused-attention": fuse_attention,
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
