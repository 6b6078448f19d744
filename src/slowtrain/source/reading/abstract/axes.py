"""Shapes of results of functions that remove, add, reorder or repeat axes of their first argument.

Each rule gives None if the shape is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from slowtrain.source.reading.abstract.values import Given, Shape, Value, sizes

NAMES = "x a input input_tensor tensor image images value values features logits params".split()
# Functions that keep the first argument's shape, by the last part of the name.
AS_FIRST = frozenset(
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


def first(given: Given) -> Value | None:
    """The first argument."""
    if given.args:
        return given.args[0]
    return next((given.keywords[name] for name in NAMES if name in given.keywords), None)


def held(given: Given) -> Shape | None:
    """The first argument's shape."""
    one = first(given)
    return one.shape if one is not None and one.kind in ("array", "tensor", "variable") else None


def whole(one: Value) -> int | None:
    """The integer that a value is in every turn; None if it is not constant."""
    known = isinstance(one.known, int) and not isinstance(one.known, bool) and not one.varies
    return one.known if known else None


def _places(one: Value, rank: int) -> set[int] | None:
    """The axes that a number or a tuple names; None if unknown."""
    several = [whole(v) for v in one.items.values()] if one.kind in ("tuple", "list") else [whole(one)]
    if not several or any(n is None or not -rank <= n < rank for n in several):
        return None
    return {n % rank for n in several if n is not None}


def less(shape: Shape | None, axis: Value, keep: Value) -> Shape | None:
    """The shape without the named axes; () if ``axis`` is None. ``keep``: the axes stay with size 1."""
    if axis.kind == "none":
        return ()
    taken = _places(axis, len(shape)) if shape else None
    if shape is None or taken is None:
        return None
    if keep.known is True:
        return tuple(1 if i in taken else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in taken)


def reduced(given: Given) -> Shape | None:
    """``sum`` and the like; () without an axis."""
    if "axis" in given.keywords or len(given.args) > 1:
        return less(held(given), given.get("axis", 1), given.get("keepdims"))
    return () if "keepdims" not in given.keywords else None


def best(given: Given) -> Shape | None:
    """``argmax``: without an axis NumPy searches all numbers, TensorFlow along the first axis."""
    shape = held(given)
    if "axis" in given.keywords or len(given.args) > 1:
        return less(shape, given.get("axis", 1), given.get("keepdims"))
    return () if shape is not None and len(shape) == 1 else None


def picked(given: Given) -> Shape | None:
    """``norm``, if its axis is given by keyword."""
    axis = given.keywords.get("axis")
    return None if axis is None else less(held(given), axis, given.get("keepdims"))


def widened(given: Given) -> Shape | None:
    """``expand_dims``."""
    shape, axis = held(given), whole(given.get("axis", 1))
    if shape is None or axis is None or not -len(shape) - 1 <= axis <= len(shape):
        return None
    place = axis % (len(shape) + 1)
    return (*shape[:place], 1, *shape[place:])


def narrowed(given: Given) -> Shape | None:
    """``squeeze``."""
    shape = held(given)
    if shape is None:
        return None
    if "axis" not in given.keywords and len(given.args) < 2:
        return tuple(n for n in shape if n != 1) if None not in shape else None
    return less(shape, given.get("axis", 1), Value())


def turned(given: Given) -> Shape | None:
    """``transpose`` and ``permute``."""
    shape = held(given)
    named = next((given.keywords[k] for k in ("perm", "axes") if k in given.keywords), given.get("", 1))
    if shape is None:
        return None
    order = [whole(v) for v in named.items.values()] if named.kind in ("tuple", "list") else []
    if not order:
        return shape[::-1] if named.kind == "unknown" and len(given.every) == 1 else None
    if sorted(n for n in order if n is not None) != list(range(len(shape))):
        return None
    return tuple(shape[n] for n in order if n is not None)


def tiled(given: Given) -> Shape | None:
    """``tile``."""
    shape = held(given)
    times = sizes(next((given.keywords[k] for k in ("multiples", "reps") if k in given.keywords), given.get("", 1)))
    if shape is None or times is None or len(times) != len(shape):
        return None
    return tuple(n * t if n is not None and t is not None else None for n, t in zip(shape, times, strict=True))


def repeated(given: Given) -> Shape | None:
    """``repeat``: of each number, or along a named axis."""
    shape, times, axis = held(given), whole(given.get("repeats", 1)), whole(given.get("axis", 2))
    if "axis" not in given.keywords and len(given.args) < 3:
        known = shape is not None and times is not None and None not in shape
        return (prod(n for n in shape or () if n is not None) * (times or 0),) if known else (None,)
    if not shape or axis is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    wide = shape[place]
    return (*shape[:place], wide * times if wide and times else None, *shape[place + 1 :])


def padded(given: Given) -> Shape | None:
    """``pad``."""
    shape = held(given)
    ends = next((given.keywords[k] for k in ("paddings", "pad_width") if k in given.keywords), given.get("", 1))
    pairs = [sizes(one) for one in ends.items.values()] if ends.kind in ("tuple", "list") else []
    if shape is None or len(pairs) != len(shape):
        return None
    found: list[int | None] = []
    for size, pair in zip(shape, pairs, strict=True):
        known = size is not None and pair is not None and len(pair) == 2 and None not in pair
        found.append(size + sum(n for n in pair or () if n is not None) if known and size is not None else None)
    return tuple(found)


def gathered(given: Given) -> Shape | None:
    """``gather`` and ``take``: rows, or items along a named axis."""
    shape, by = held(given), given.get("indices", 1)
    inside = () if by.kind == "number" else by.shape if by.kind in ("array", "tensor", "variable") else None
    named = "axis" in given.keywords or len(given.args) > 2
    axis = whole(given.get("axis", 2)) if named else 0
    if not shape or inside is None or axis is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    return (*shape[:place], *inside, *shape[place + 1 :])


def with_channels(channels: int) -> Callable[[Given], Shape | None]:
    """Makes the rule for images with this number of channels."""

    def does(given: Given) -> Shape | None:
        shape = held(given)
        return (*shape[:-1], channels) if shape else None

    return does


def boxed(given: Given) -> Shape | None:
    """``crop_to_bounding_box`` and ``pad_to_bounding_box``."""
    shape = held(given)
    sides = (whole(given.get("target_height", 3)), whole(given.get("target_width", 4)))
    return (*shape[:-3], *sides, shape[-1]) if shape and len(shape) >= 3 else None


def central(given: Given) -> Shape | None:
    """``central_crop``: both image sides become unknown."""
    shape = held(given)
    return (*shape[:-3], None, None, shape[-1]) if shape and len(shape) >= 3 else None


def summed(given: Given) -> Shape | None:
    """``einsum``: sizes by their letters."""
    says = given.every[0].known if given.every else None
    taken, arrow, left = says.replace(" ", "").partition("->") if isinstance(says, str) else ("", "", "")
    letters, shapes = taken.split(","), [one.shape for one in given.args[1:]]
    if not arrow or "." in taken + left or len(letters) != len(shapes):
        return None
    known: dict[str, int | None] = {}
    for names, shape in zip(letters, shapes, strict=True):
        if shape is not None and len(shape) == len(names):
            known |= {name: n for name, n in zip(names, shape, strict=True) if n is not None}
    return tuple(known.get(name) for name in left)


def spectrum(given: Given) -> Shape | None:
    """``rfft`` along the last axis."""
    shape = held(given)
    named = next((given.keywords[k] for k in ("n", "fft_length") if k in given.keywords), None)
    if not shape or (named is None and len(given.every) > 1):
        return None
    points = shape[-1] if named is None else whole(named)
    return (*shape[:-1], points // 2 + 1 if points else None)


RULES: dict[str, Callable[[Given], Shape | None]] = {
    **dict.fromkeys(AS_FIRST, held),
    **dict.fromkeys("mean sum max min std var prod any all amax amin nanmean nansum median logsumexp".split(), reduced),
    **dict.fromkeys(("argmax", "argmin"), best),
    "norm": picked,
    "expand_dims": widened,
    "squeeze": narrowed,
    "transpose": turned,
    "tile": tiled,
    "repeat": repeated,
    "pad": padded,
    **dict.fromkeys(("gather", "embedding_lookup"), gathered),
    "take": lambda given: gathered(given) if "axis" in given.keywords else None,  # NumPy's flattens the array
    "rgb_to_grayscale": with_channels(1),
    "grayscale_to_rgb": with_channels(3),
    **dict.fromkeys(("crop_to_bounding_box", "pad_to_bounding_box"), boxed),
    "rfft": spectrum,
    "central_crop": central,
    "einsum": summed,
    "decode_raw": lambda _: (None,),
}  # fmt: skip
