"""Operations of TensorFlow by what a leading batch axis means to them; names without ``tensorflow.`` and ``math.``."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from slowtrain.model import Edit
from slowtrain.script.text.source_file import Source

# Number by number: any number of axes, the same number of them afterwards.
SAME = frozenset(
    "cast saturate_cast identity stop_gradient zeros_like ones_like abs negative exp expm1 log log1p sqrt rsqrt square "
    "reciprocal sign floor ceil round sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid softplus "
    "softsign erf erfc lgamma digamma is_nan is_inf is_finite logical_not clip_by_value bitcast nn.relu nn.relu6 "
    "nn.elu nn.selu nn.gelu nn.silu nn.swish nn.leaky_relu nn.sigmoid nn.tanh nn.softplus image.convert_image_dtype "
    "strings.lower strings.upper strings.strip strings.regex_replace strings.regex_full_match strings.length "
    "strings.to_number strings.to_hash_bucket strings.to_hash_bucket_fast strings.to_hash_bucket_strong strings.substr "
    "strings.as_string as_string io.decode_base64 io.encode_base64".split()
)
# Number by number, of several tensors with the same axes.
BINARY = frozenset(
    "add subtract multiply divide truediv floordiv "
    "divide_no_nan multiply_no_nan mod floormod pow maximum minimum equal "
    "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor squared_difference where atan2 "
    "xlogy xdivy hypot".split()
)
# The same of a list of them.
LISTED = frozenset({"strings.join", "add_n"})
# Pictures: three axes for one, four for a batch, each picture by itself.
IMAGES = frozenset(
    "image.resize image.flip_left_right image.flip_up_down image.rot90 image.per_image_standardization "
    "image.adjust_brightness image.adjust_contrast image.adjust_gamma image.adjust_hue image.adjust_saturation "
    "image.rgb_to_grayscale image.grayscale_to_rgb image.central_crop image.crop_to_bounding_box "
    "image.pad_to_bounding_box image.resize_with_pad image.resize_with_crop_or_pad image.transpose image.rgb_to_hsv "
    "image.hsv_to_rgb".split()
)
# The same, and each picture of a batch is drawn for by itself.
DRAWN = frozenset({"image.random_flip_left_right", "image.random_flip_up_down"})
# With an axis, which has to be counted from the end.
AXIS = frozenset(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_any reduce_all reduce_std reduce_variance argmax "
    "argmin cumsum nn.softmax nn.log_softmax stack concat expand_dims squeeze one_hot unstack reverse".split()
)
# That make another structure.
STRUCTURE = frozenset({"io.decode_csv", "io.decode_raw", "io.parse_single_example", "io.parse_example", "reshape"})
# Keras layers that do the same to a picture and to each picture of a batch (their random ones draw for each).
LAYERS = frozenset(
    "Rescaling Resizing CenterCrop RandomFlip RandomRotation RandomZoom RandomTranslation RandomContrast "
    "RandomBrightness".split()
)


class Unsure(Exception):
    """The text does not show it."""


@dataclass(frozen=True)
class Item:
    """A tensor made of the element: ``rank`` axes, or as many as all others with the same ``like``."""

    rank: int | None
    like: object = None
    group: bool = False  # a dictionary or a tuple, each part of which has so many axes


@dataclass(frozen=True)
class Fixed:
    """The same for every element. ``rank`` None: not known; ``value``: of a name that a comprehension counts."""

    rank: int | None = None
    value: object = None


@dataclass(frozen=True)
class Several:
    """A tuple, a list or a dictionary of values; ``each`` where they are alike and their number is not known."""

    parts: tuple[Value, ...] = ()
    keys: tuple[object, ...] = ()
    each: Value | None = None


@dataclass(frozen=True)
class Own:
    """The object that a method of the class ``kind`` belongs to."""

    kind: ast.ClassDef


Value = Item | Fixed | Several | Own


@dataclass
class Followed:
    """What following a function found."""

    source: Source
    changes: list[Edit] = field(default_factory=list)
    random: bool = False  # draws at random, for each element of a batch as well
    doubt: bool = False  # a constant of unknown rank took part
    lowered: bool = False  # an axis was taken away
    once: bool = False  # a change is right for batches only
    entered: list[str] = field(default_factory=list)  # functions that were followed
