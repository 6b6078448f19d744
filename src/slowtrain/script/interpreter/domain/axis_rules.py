"""Shapes of results of functions that remove, add, reorder or repeat axes of their first argument.

Each rule gives None if the shape is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Shape, Value, shape_argument

FIRST_ARGUMENT_NAMES = "x a input input_tensor tensor image images value values features logits params".split()
# Functions that keep the first argument's shape, by the last part of the name.
SAME_SHAPE_FUNCTIONS = frozenset(
    "per_image_standardization adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation "
    "adjust_jpeg_quality random_jpeg_quality rgb_to_hsv hsv_to_rgb flip_left_right flip_up_down flip fliplr flipud "
    "roll random_flip_left_right random_flip_up_down random_brightness random_contrast random_hue random_saturation "
    "stateless_random_flip_left_right stateless_random_flip_up_down stateless_random_brightness "
    "stateless_random_contrast stateless_random_hue stateless_random_saturation random_shuffle shuffle reverse sort "
    "argsort softmax log_softmax softplus softsign elu selu gelu leaky_relu relu6 silu swish l2_normalize dropout "
    "asin acos atan asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh sinh cosh log2 log10 exp2 cbrt "
    "reciprocal negative ceil trunc rint fabs absolute fft ifft fft2d ifft2d unwrap real imag conj conjugate angle "
    "isnan isfinite isinf is_nan is_finite is_inf saturate_cast erf lgamma digamma nan_to_num "
    "clip_by_norm to_number to_hash_bucket to_hash_bucket_fast lower strip regex_replace deg2rad rad2deg "
    "zeros_like ones_like full_like empty_like".split()
)


def first_argument(call: CallArgs) -> Value | None:
    """The first argument."""
    if call.args:
        return call.args[0]
    return next((call.keywords[name] for name in FIRST_ARGUMENT_NAMES if name in call.keywords), None)


def first_shape(call: CallArgs) -> Shape | None:
    """The first argument's shape."""
    one = first_argument(call)
    return one.shape if one is not None and one.kind in ("array", "tensor", "variable") else None


def constant_int(one: Value) -> int | None:
    """The integer that a value is in every iteration; None if it is not constant."""
    known = isinstance(one.known, int) and not isinstance(one.known, bool) and not one.varies
    return one.known if known else None


def _axis_numbers(one: Value, rank: int) -> set[int] | None:
    """The axes that a number or a tuple names; None if unknown."""
    several = [constant_int(v) for v in one.items.values()] if one.kind in ("tuple", "list") else [constant_int(one)]
    if not several or any(n is None or not -rank <= n < rank for n in several):
        return None
    return {n % rank for n in several if n is not None}


def shape_without_axes(shape: Shape | None, axis: Value, keep: Value) -> Shape | None:
    """The shape without the named axes; () if ``axis`` is None. ``keep``: the axes stay with size 1."""
    if axis.kind == "none":
        return ()
    taken = _axis_numbers(axis, len(shape)) if shape else None
    if shape is None or taken is None:
        return None
    if keep.known is True:
        return tuple(1 if i in taken else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in taken)


def reduce_shape(call: CallArgs) -> Shape | None:
    """``sum`` and the like; () without an axis."""
    if "axis" in call.keywords or len(call.args) > 1:
        return shape_without_axes(first_shape(call), call.get("axis", 1), call.get("keepdims"))
    return () if "keepdims" not in call.keywords else None


def argmax_shape(call: CallArgs) -> Shape | None:
    """``argmax``: without an axis NumPy searches all numbers, TensorFlow along the first axis."""
    shape = first_shape(call)
    if "axis" in call.keywords or len(call.args) > 1:
        return shape_without_axes(shape, call.get("axis", 1), call.get("keepdims"))
    return () if shape is not None and len(shape) == 1 else None


def norm_shape(call: CallArgs) -> Shape | None:
    """``norm``, if its axis is given by keyword."""
    axis = call.keywords.get("axis")
    return None if axis is None else shape_without_axes(first_shape(call), axis, call.get("keepdims"))


def expand_dims_shape(call: CallArgs) -> Shape | None:
    """``expand_dims``."""
    shape, axis = first_shape(call), constant_int(call.get("axis", 1))
    if shape is None or axis is None or not -len(shape) - 1 <= axis <= len(shape):
        return None
    place = axis % (len(shape) + 1)
    return (*shape[:place], 1, *shape[place:])


def squeeze_shape(call: CallArgs) -> Shape | None:
    """``squeeze``."""
    shape = first_shape(call)
    if shape is None:
        return None
    if "axis" not in call.keywords and len(call.args) < 2:
        return tuple(n for n in shape if n != 1) if None not in shape else None
    return shape_without_axes(shape, call.get("axis", 1), Value())


def transpose_shape(call: CallArgs) -> Shape | None:
    """``transpose`` and ``permute``."""
    shape = first_shape(call)
    named = next((call.keywords[k] for k in ("perm", "axes") if k in call.keywords), call.get("", 1))
    if shape is None:
        return None
    order = [constant_int(v) for v in named.items.values()] if named.kind in ("tuple", "list") else []
    if not order:
        return shape[::-1] if named.kind == "unknown" and len(call.every) == 1 else None
    if sorted(n for n in order if n is not None) != list(range(len(shape))):
        return None
    return tuple(shape[n] for n in order if n is not None)


def tile_shape(call: CallArgs) -> Shape | None:
    """``tile``."""
    shape = first_shape(call)
    times = shape_argument(
        next((call.keywords[k] for k in ("multiples", "reps") if k in call.keywords), call.get("", 1))
    )
    if shape is None or times is None or len(times) != len(shape):
        return None
    return tuple(n * t if n is not None and t is not None else None for n, t in zip(shape, times, strict=True))


def repeat_shape(call: CallArgs) -> Shape | None:
    """``repeat``: of each number, or along a named axis."""
    shape, times, axis = first_shape(call), constant_int(call.get("repeats", 1)), constant_int(call.get("axis", 2))
    if "axis" not in call.keywords and len(call.args) < 3:
        known = shape is not None and times is not None and None not in shape
        return (prod(n for n in shape or () if n is not None) * (times or 0),) if known else (None,)
    if not shape or axis is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    wide = shape[place]
    return (*shape[:place], wide * times if wide and times else None, *shape[place + 1 :])


def pad_shape(call: CallArgs) -> Shape | None:
    """``pad``."""
    shape = first_shape(call)
    ends = next((call.keywords[k] for k in ("paddings", "pad_width") if k in call.keywords), call.get("", 1))
    pairs = [shape_argument(one) for one in ends.items.values()] if ends.kind in ("tuple", "list") else []
    if shape is None or len(pairs) != len(shape):
        return None
    found: list[int | None] = []
    for size, pair in zip(shape, pairs, strict=True):
        known = size is not None and pair is not None and len(pair) == 2 and None not in pair
        found.append(size + sum(n for n in pair or () if n is not None) if known and size is not None else None)
    return tuple(found)


def gather_shape(call: CallArgs) -> Shape | None:
    """``gather`` and ``take``: rows, or items along a named axis."""
    shape, by = first_shape(call), call.get("indices", 1)
    inside = () if by.kind == "number" else by.shape if by.kind in ("array", "tensor", "variable") else None
    named = "axis" in call.keywords or len(call.args) > 2
    axis = constant_int(call.get("axis", 2)) if named else 0
    if not shape or inside is None or axis is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    return (*shape[:place], *inside, *shape[place + 1 :])


def channels_rule(channels: int) -> Callable[[CallArgs], Shape | None]:
    """Makes the rule for images with this number of channels."""

    def does(call: CallArgs) -> Shape | None:
        shape = first_shape(call)
        return (*shape[:-1], channels) if shape else None

    return does


def bounding_box_shape(call: CallArgs) -> Shape | None:
    """``crop_to_bounding_box`` and ``pad_to_bounding_box``."""
    shape = first_shape(call)
    sides = (constant_int(call.get("target_height", 3)), constant_int(call.get("target_width", 4)))
    return (*shape[:-3], *sides, shape[-1]) if shape and len(shape) >= 3 else None


def central_crop_shape(call: CallArgs) -> Shape | None:
    """``central_crop``: both image sides become unknown."""
    shape = first_shape(call)
    return (*shape[:-3], None, None, shape[-1]) if shape and len(shape) >= 3 else None


def einsum_shape(call: CallArgs) -> Shape | None:
    """``einsum``: sizes by their letters."""
    says = call.every[0].known if call.every else None
    taken, arrow, left = says.replace(" ", "").partition("->") if isinstance(says, str) else ("", "", "")
    letters, shapes = taken.split(","), [one.shape for one in call.args[1:]]
    if not arrow or "." in taken + left or len(letters) != len(shapes):
        return None
    known: dict[str, int | None] = {}
    for names, shape in zip(letters, shapes, strict=True):
        if shape is not None and len(shape) == len(names):
            known |= {name: n for name, n in zip(names, shape, strict=True) if n is not None}
    return tuple(known.get(name) for name in left)


def rfft_shape(call: CallArgs) -> Shape | None:
    """``rfft`` along the last axis."""
    shape = first_shape(call)
    named = next((call.keywords[k] for k in ("n", "fft_length") if k in call.keywords), None)
    if not shape or (named is None and len(call.every) > 1):
        return None
    points = shape[-1] if named is None else constant_int(named)
    return (*shape[:-1], points // 2 + 1 if points else None)


AXIS_RULES: dict[str, Callable[[CallArgs], Shape | None]] = {
    **dict.fromkeys(SAME_SHAPE_FUNCTIONS, first_shape),
    **dict.fromkeys("mean sum max min std var prod any all amax amin nanmean nansum median "
                    "logsumexp".split(), reduce_shape),
    **dict.fromkeys(("argmax", "argmin"), argmax_shape),
    "norm": norm_shape,
    "expand_dims": expand_dims_shape,
    "squeeze": squeeze_shape,
    "transpose": transpose_shape,
    "tile": tile_shape,
    "repeat": repeat_shape,
    "pad": pad_shape,
    **dict.fromkeys(("gather", "embedding_lookup"), gather_shape),
    "take": lambda given: gather_shape(given) if "axis" in given.keywords else None,  # NumPy's flattens the array
    "rgb_to_grayscale": channels_rule(1),
    "grayscale_to_rgb": channels_rule(3),
    **dict.fromkeys(("crop_to_bounding_box", "pad_to_bounding_box"), bounding_box_shape),
    "rfft": rfft_shape,
    "central_crop": central_crop_shape,
    "einsum": einsum_shape,
    "decode_raw": lambda _: (None,),
}  # fmt: skip
