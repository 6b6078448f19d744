"""Shapes of results of NumPy and TensorFlow functions and of slices; None if unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import prod

from slowtrain.script.interpreter.domain import axis_rules, operators
from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Shape, Value, sequence_value, shape_argument

# Element-wise functions of NumPy and TensorFlow, by the last part of the name.
ELEMENTWISE_FUNCTIONS = frozenset(
    "abs exp log log1p expm1 sqrt rsqrt square sign sin cos tan tanh arctan2 hypot sigmoid relu clip clip_by_value "
    "cast identity stop_gradient constant convert_to_tensor maximum minimum add subtract multiply divide "
    "where greater less equal floor round power pow array asarray ascontiguousarray "
    "float32 float64 int32 int64 uint8 logical_and logical_or logical_not not_equal greater_equal less_equal mod "
    "floormod floordiv floor_divide truediv true_divide divide_no_nan remainder multiply_no_nan squared_difference "
    "atan2 logaddexp fmod copysign complex xlogy xdivy "
    "Variable convert_image_dtype".split()
)
SHAPE_FUNCTIONS = frozenset("zeros ones fill full empty normal uniform truncated_normal".split())
SHAPED_KINDS = ("array", "tensor", "variable")
# Bytes per number.
DTYPE_BYTES = {"uint8": 1, "int8": 1, "bool": 1, "float16": 2, "bfloat16": 2, "int16": 2, "float32": 4, "int32": 4}


def with_shape(value: Value, name: str, call: CallArgs) -> Value:
    """A function's result with its shape filled in."""
    if value.shape is not None or value.kind not in SHAPED_KINDS:
        return value
    last = name.rpartition(".")[2]
    does = _SHAPE_RULES.get(last.removeprefix("reduce_") if last.startswith("reduce_") else last)
    if does is None and last in ELEMENTWISE_FUNCTIONS:
        does = _broadcast_arguments
    if does is None and last in SHAPE_FUNCTIONS and not name.startswith("numpy.random."):
        does = _named_shape
    shape = does(call) if does is not None else None
    return value if shape is None else value.with_fields(shape=shape)


def shape_of(value: Value) -> Shape | None:
    """The shape of an array, a tensor, a number, or a list of them, whose first size may be a minimum."""
    if value.kind in SHAPED_KINDS:
        return value.shape
    if value.kind == "number":
        return ()
    if value.kind in ("list", "tuple") and value.items:
        inside = {shape_of(one) for one in value.items.values()}
        first = inside.pop()
        return (operators.minimum_length(value), *first) if not inside and first is not None else None
    return None


def layer_output_shape(name: str, shape: Shape | None) -> Shape | None:
    """The output shape of a Keras layer or model: the batch's rows, and unknown features."""
    gives = name.startswith("keras.layers.") or name.endswith((".Sequential", ".Model"))
    return (shape[0] if shape else None, None) if gives else None


def input_shape(call: CallArgs) -> Shape | None:
    """The shape of ``keras.Input``."""
    wide = shape_argument(call.get("shape", 0))
    return shape_argument(call.get("batch_shape")) if wide is None else (None, *wide)


def sliced_shape(
    shape: Shape | None, parts: Sequence[ast.expr], rows: Callable[[ast.Slice, int | None], int | None]
) -> Shape | None:
    """The shape of a subscript; ``rows(slice, n)`` gives the number of rows that a slice takes of n."""
    taken = sum(not _is_new_axis(one) for one in parts)
    if shape is None or any(_is_constant(one, ...) for one in parts[1:]):
        return None
    if parts and _is_constant(parts[0], ...):
        if taken - 1 > len(shape):
            return None
        ahead: list[ast.expr] = [ast.Slice()] * (len(shape) - taken + 1)
        parts, taken = [*ahead, *parts[1:]], len(shape)
    if taken > len(shape):
        return None
    found: list[int | None] = []
    left = list(shape)
    for one in parts:
        if _is_new_axis(one):
            found.append(1)
            continue
        size = left.pop(0)
        if isinstance(one, ast.Slice):
            found.append(rows(one, size))
    return (*found, *left)


def _is_new_axis(one: ast.expr) -> bool:
    return _is_constant(one, None) or (isinstance(one, ast.Attribute) and one.attr == "newaxis")


def method_shape(shape: Shape | None, name: str, call: CallArgs) -> Shape | None:
    """The shape of the result of an array's method."""
    if name in ("copy", "clip", "round", "cumsum", "cumprod") and (not name.startswith("cum") or call.every):
        return shape
    if name == "reshape":
        several = (
            shape_argument(call.args[0])
            if len(call.args) == 1
            else tuple(axis_rules.constant_int(one) for one in call.args)
        )
        return None if several is None else tuple(None if n == -1 else n for n in several)
    if name in ("ravel", "flatten"):
        return (prod(n for n in shape if n is not None) if shape is not None and None not in shape else None,)
    if name == "transpose":
        axes = [sequence_value("tuple", call.args)] if call.args and call.args[0].kind == "number" else call.args
        return axis_rules.transpose_shape(CallArgs(call.node, [Value("array", shape=shape), *axes]))
    does = axis_rules.AXIS_RULES.get(name) if shape is not None else None
    whole = CallArgs(call.node, [Value("array", shape=shape), *call.args], call.keywords)
    return does(whole) if does is not None else None


def _window_shape(call: CallArgs) -> Shape | None:
    """The shape of ``sliding_window_view``: one window per position, along a new last axis."""
    shape = call.args[0].shape if call.args else None
    wide, along = axis_rules.constant_int(call.get("window_shape", 1)), call.get("axis", 2).known
    place = along if isinstance(along, int) else 0
    if shape is None or wide is None or not -len(shape) <= place < len(shape):
        return None
    place %= len(shape)
    rows = shape[place]
    return (*shape[:place], rows - wide + 1 if rows else None, *shape[place + 1 :], wide)


def drawn_shape(last: str, size: Value, call: CallArgs) -> Shape | None:
    """The shape of a NumPy draw: the size argument, or the parameters' shape."""
    if last in ("rand", "randn"):
        return tuple(axis_rules.constant_int(one) for one in call.args)
    if last == "permutation" and call.args:
        return (
            (axis_rules.constant_int(call.args[0]),) if call.args[0].kind == "number" else shape_argument(call.args[0])
        )
    if size.kind not in ("unknown", "none"):
        return shape_argument(size)
    arrays = [one for one in call.every if one.kind == "array"]
    return _broadcast_arguments(CallArgs(call.node, arrays)) if arrays and last != "choice" else None


def _is_constant(one: ast.expr, known: object) -> bool:
    return isinstance(one, ast.Constant) and one.value is known


def _broadcast_arguments(call: CallArgs) -> Shape | None:
    shapes = [shape_of(one) for one in call.every if one.kind in (*SHAPED_KINDS, "number", "list")]
    found = [one for one in shapes if one is not None]
    return operators.broadcast_shape(found) if found and len(found) == len(shapes) else None


def _named_shape(call: CallArgs) -> Shape | None:
    return shape_argument(call.get("shape" if "shape" in call.keywords else "dims", 0))


def _reshape_shape(call: CallArgs) -> Shape | None:
    several = shape_argument(call.get("shape" if "shape" in call.keywords else "newshape", 1))
    return None if several is None else tuple(None if n == -1 else n for n in several)


def _axis_argument(call: CallArgs, place: int) -> int | None:
    """The axis argument, 0 if it is not given; None if unknown."""
    axis = call.get("axis", place)
    if axis.kind == "unknown" and "axis" not in call.keywords and len(call.args) <= place:
        return 0
    return axis.known if isinstance(axis.known, int) else None


def _stack_shape(call: CallArgs) -> Shape | None:
    several, axis = call.get("values", 0), _axis_argument(call, 1)
    whole = shape_of(several) if several.kind in ("list", "tuple") else None
    if whole is None or axis is None:
        return None
    if not -len(whole) <= axis < len(whole):
        return None
    place = axis if axis >= 0 else len(whole) + axis
    inside = list(whole[1:])
    inside.insert(place, whole[0])
    return tuple(inside)


def _concat_shape(call: CallArgs) -> Shape | None:
    return _concatenated_shape(call.get("values", 0), _axis_argument(call, 1))


def _concatenated_shape(several: Value, axis: int | None) -> Shape | None:
    """The shape of a concatenation along an axis; its size there is the sum, if all are known."""
    inside = shape_of(next(iter(several.items.values()))) if several.items else None
    if not inside or axis is None or not -len(inside) <= axis < len(inside):
        return None
    place, counted = axis % len(inside), operators.known_length(several) is not None and None not in several.items
    parts = [one[place] if (one := shape_of(v)) and place < len(one) else None for v in several.items.values()]
    whole = sum(n for n in parts if n is not None) if counted and None not in parts else None
    return (*inside[:place], whole, *inside[place + 1 :])


def _stacking_rule(axis: int) -> Callable[[CallArgs], Shape | None]:
    """Makes the rule of ``vstack`` and ``hstack``. Of one-dimensional arrays nothing is known."""

    def does(call: CallArgs) -> Shape | None:
        several = call.get("tup", 0)
        first = shape_of(next(iter(several.items.values()))) if several.items else None
        return _concatenated_shape(several, axis) if first is not None and len(first) > 1 else None

    return does


def _column_stack_shape(call: CallArgs) -> Shape | None:
    several = call.get("tup", 0)
    parts = [shape_of(one) for one in several.items.values()]
    known = [one for one in parts if one]
    rows = {one[0] for one in known}
    if not known or len(rows) != 1 or any(len(one) > 2 for one in known):
        return None
    wide = [one[1] if len(one) > 1 else 1 for one in known]
    sure = len(known) == len(parts) and operators.known_length(several) is not None and None not in several.items
    return rows.pop(), sum(n for n in wide if n is not None) if sure and None not in wide else None


def _one_hot_shape(call: CallArgs) -> Shape | None:
    inside, depth = shape_of(call.get("indices", 0)), call.get("depth", 1).known
    return None if inside is None else (*inside, depth if isinstance(depth, int) else None)


def _resize_shape(call: CallArgs) -> Shape | None:
    wide, shape = shape_argument(call.get("size", 1)), shape_of(call.get("images", 0))
    return None if wide is None or not shape else (*shape[:-3], *wide, shape[-1])


def _resize_with_pad_shape(call: CallArgs) -> Shape | None:
    wide, shape = (call.get("target_height", 1), call.get("target_width", 2)), shape_of(call.get("image", 0))
    sides = tuple(one.known if isinstance(one.known, int) else None for one in wide)
    return (*shape[:-3], *sides, shape[-1]) if shape else None


def _stft_shape(call: CallArgs) -> Shape | None:
    """The shape of ``stft``: frames and frequencies."""
    signal, several = shape_of(call.get("signals", 0)), [call.get("frame_length", 1), call.get("frame_step", 2)]
    several.append(call.get("fft_length", 3))
    long, step, points = (one.known if isinstance(one.known, int) and one.known > 0 else None for one in several)
    if not signal or long is None or step is None or (points is None and several[2].kind not in ("unknown", "none")):
        return None
    whole = signal[-1]
    frames = None if whole is None else max(1 + (whole - long) // step, 0)
    points = points or 1 << (long - 1).bit_length()  # TensorFlow rounds up to a power of two
    return (*signal[:-1], frames, points // 2 + 1)


def _matmul_shape(call: CallArgs) -> Shape | None:
    left, right = (_matmul_side(call, name, place) for place, name in enumerate("ab"))
    return None if len(call.args) > 2 else operators.matmul_shape(left, right)


def _matmul_side(call: CallArgs, name: str, place: int) -> Shape | None:
    """The shape of one side of a product, transposed if that is requested."""
    shape = shape_of(call.get(name, place))
    asked = [call.keywords[k].known for k in (f"transpose_{name}", f"adjoint_{name}") if k in call.keywords]
    if not shape or len(shape) < 2 or not any(asked):
        return shape
    return None if any(not isinstance(one, bool) for one in asked) else (*shape[:-2], shape[-1], shape[-2])


def _cumsum_shape(call: CallArgs) -> Shape | None:
    """The shape of ``cumsum``: without an axis NumPy flattens, TensorFlow takes the first axis."""
    shape = shape_of(call.every[0]) if call.every else None
    return shape if len(call.every) > 1 or (shape is not None and len(shape) == 1) else None


def _row_loss_shape(call: CallArgs) -> Shape | None:
    """The shape of a cross-entropy per row, whose labels are distributions over the last axis."""
    labels = shape_of(call.get("labels", 0))
    return labels[:-1] if labels else None


def _decoded_image_shape(call: CallArgs) -> Shape | None:
    channels = call.get("channels", 1).known
    return (None, None, channels if isinstance(channels, int) and channels else None)


def _eye_shape(call: CallArgs) -> Shape | None:
    rows = shape_argument(call.get("N", 0))
    return rows and (*rows, *(shape_argument(call.get("M", 1)) or rows))


def _mel_matrix_shape(call: CallArgs) -> Shape | None:
    several = (call.get("num_spectrogram_bins", 1).known, call.get("num_mel_bins", 0).known)
    return tuple(n if isinstance(n, int) else None for n in several)


def _range_shape(call: CallArgs) -> Shape | None:
    """The shape of ``range`` and ``arange``: one axis, of known size if all bounds are known integers."""
    known = [n for one in call.args if (n := axis_rules.constant_int(one)) is not None]
    whole = 0 < len(known) == len(call.args) <= 3 and 0 not in known[2:] and not set(call.keywords) - {"dtype"}
    return (len(range(*known)),) if whole else (None,)


def _linspace_shape(call: CallArgs) -> Shape | None:
    count = call.get("num", 2)
    return (50,) if count.kind == "unknown" and len(call.every) == 2 else shape_argument(count)


_SHAPE_RULES: dict[str, Callable[[CallArgs], Shape | None]] = {
    **axis_rules.AXIS_RULES,
    **dict.fromkeys(("concat", "concatenate"), _concat_shape),
    **dict.fromkeys(("eye", "identity_matrix"), _eye_shape),
    "column_stack": _column_stack_shape,
    "vstack": _stacking_rule(0),
    "hstack": _stacking_rule(1),
    "frombuffer": lambda _: (None,),
    "reshape": _reshape_shape,
    "stack": _stack_shape,
    "one_hot": _one_hot_shape,
    "resize": _resize_shape,
    **dict.fromkeys(("resize_with_pad", "resize_with_crop_or_pad"), _resize_with_pad_shape),
    "random_crop": lambda given: shape_argument(given.get("size", 1)),
    "stft": _stft_shape,
    **dict.fromkeys(("cumsum", "cumprod"), _cumsum_shape),
    "flatnonzero": lambda _: (None,),
    **dict.fromkeys(
        ("sigmoid_cross_entropy_with_logits", "sparse_softmax_cross_entropy_with_logits"),
        lambda given: shape_of(given.get("labels", 0)),
    ),
    "softmax_cross_entropy_with_logits": _row_loss_shape,
    "matmul": _matmul_shape,
    "linear_to_mel_weight_matrix": _mel_matrix_shape,
    "mfccs_from_log_mel_spectrograms": lambda given: shape_of(given.get("log_mel_spectrograms", 0)),
    "ensure_shape": lambda given: shape_argument(given.get("shape", 1)),
    **dict.fromkeys(("decode_jpeg", "decode_png", "decode_image", "decode_bmp"), _decoded_image_shape),
    "decode_and_crop_jpeg": lambda given: (None, None, axis_rules.constant_int(given.get("channels", 2)) or None),
    **dict.fromkeys(("arange", "range"), _range_shape),
    "linspace": _linspace_shape,
    "where": lambda given: _broadcast_arguments(given) if len(given.every) == 3 else None,
    "sliding_window_view": _window_shape,
}
