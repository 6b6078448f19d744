"""TensorFlow operations by their treatment of a leading batch axis, and the values of a function for one element."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct, field

from slowtrain.model import Edit
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# The names of TensorFlow's functions omit ``tensorflow.`` and ``math.``.
# Elementwise functions of one tensor. The rank stays the same.
UNARY_FUNCTIONS = frozenset(
    "cast saturate_cast identity stop_gradient zeros_like ones_like abs negative exp expm1 log log1p sqrt rsqrt square "
    "reciprocal sign floor ceil round sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid softplus "
    "softsign erf erfc lgamma digamma is_nan is_inf is_finite logical_not clip_by_value bitcast nn.relu nn.relu6 "
    "nn.elu nn.selu nn.gelu nn.silu nn.swish nn.leaky_relu nn.sigmoid nn.tanh nn.softplus image.convert_image_dtype "
    "strings.lower strings.upper strings.strip strings.regex_replace strings.regex_full_match strings.length "
    "strings.to_number strings.to_hash_bucket strings.to_hash_bucket_fast strings.to_hash_bucket_strong strings.substr "
    "strings.as_string as_string io.decode_base64 io.encode_base64".split()
)
# Elementwise functions of several tensors with equal ranks.
BINARY_FUNCTIONS = frozenset(
    "add subtract multiply divide truediv floordiv divide_no_nan multiply_no_nan mod floormod pow maximum minimum "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor squared_difference where "
    "atan2 xlogy xdivy hypot".split()
)
# They accept one image of rank 3 or a batch of rank 4, and treat each image separately. Random ones draw for each.
IMAGE_FUNCTIONS = frozenset(
    "image.resize image.flip_left_right image.flip_up_down image.rot90 image.per_image_standardization "
    "image.adjust_brightness image.adjust_contrast image.adjust_gamma image.adjust_hue image.adjust_saturation "
    "image.rgb_to_grayscale image.grayscale_to_rgb image.central_crop image.crop_to_bounding_box "
    "image.pad_to_bounding_box image.resize_with_pad image.resize_with_crop_or_pad image.transpose image.rgb_to_hsv "
    "image.hsv_to_rgb image.random_flip_left_right image.random_flip_up_down".split()
)
# They remove an axis, which has to be counted from the end. Without an axis they remove all.
REDUCTION_FUNCTIONS = frozenset(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_any reduce_all reduce_std reduce_variance".split()
)
SHAPE_LIKE_FUNCTIONS = frozenset({"zeros", "ones", "random.normal", "random.uniform", "random.truncated_normal"})
# Keras layers that treat each image of a batch like a single image. Random layers draw for each image.
BATCH_SAFE_LAYERS = frozenset(
    "Rescaling Resizing CenterCrop RandomFlip RandomRotation RandomZoom RandomTranslation RandomContrast "
    "RandomBrightness".split()
)


class NotProvenError(Exception):
    """Raised if the text does not prove the equivalence."""


class ElementValue(Struct, frozen=True):
    """A tensor computed from the element. Tensors with equal ``like`` have equal ranks."""

    rank: int | None
    like: object = None
    group: bool = False  # a dictionary or tuple whose parts have this rank


class ConstantValue(Struct, frozen=True):
    """A value that is the same for every element. ``rank`` is None if unknown."""

    rank: int | None = None


class StructureValue(Struct, frozen=True):
    """A tuple, list or dictionary of values. ``each``: the common value if their number is unknown."""

    parts: tuple[Value, ...] = ()
    keys: tuple[object, ...] = ()
    each: Value | None = None


Value = ElementValue | ConstantValue | StructureValue


class ReadFunction(Struct):
    """The result of following a function."""

    source: Source
    changes: list[Edit] = field(default_factory=list)
    random: bool = False  # draws random numbers, separately for each element of a batch
    doubt: bool = False  # a constant of unknown rank was used
    lowered: bool = False  # an axis was removed


def have_equal_ranks(items: Sequence[ElementValue]) -> bool:
    first = items[0]
    known = first.rank is not None or first.like is not None
    return known and all(i.rank == first.rank and (i.rank is not None or i.like == first.like) for i in items)


def are_constant(values: Sequence[Value]) -> bool:
    return all(isinstance(v, ConstantValue) for v in values)


def element_of_rank(node: ast.AST, rank: int | None, more: int) -> ElementValue:
    """Return a tensor with ``more`` axes than ``rank``. Without a known rank, its rank is like that of ``node``."""
    return ElementValue(None, node) if rank is None else ElementValue(rank + more)


def literal_int(node: ast.expr | None) -> int | None:
    try:
        found = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _is_literal(node: ast.AST) -> bool:
    parts = (ast.Slice, ast.Constant, ast.UnaryOp, ast.USub)
    return all(isinstance(n, parts) for n in syntax_tree.walk(node))


def indexed_parts(value: StructureValue, index: ast.expr) -> Value:
    """Return the part, or parts, at an index."""
    if isinstance(index, ast.Slice) and not value.keys and _is_literal(index):
        bounds = [literal_int(b) for b in (index.lower, index.upper, index.step)]
        return value if value.each is not None else StructureValue(value.parts[slice(*bounds)])
    place = index.value if isinstance(index, ast.Constant) else literal_int(index)
    if value.keys and place in value.keys:
        return value.parts[value.keys.index(place)]
    if value.each is not None and isinstance(place, int):
        return value.each
    if value.keys or not isinstance(place, int) or not -len(value.parts) <= place < len(value.parts):
        raise NotProvenError("an index")
    return value.parts[place]
