"""The usual repair for each op that makes numbers that are not finite out of finite ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Table = tuple[tuple[str, str], ...]

# By the op's type in TensorFlow, in the forward pass. What begins alike is repaired alike; the first that fits counts.
FORWARD: Table = (
    ("Log1p", "keep what log1p is given above -1"),
    ("Log", "keep what the logarithm is given above 1e-7 (tf.maximum), or take the loss from logits"),
    ("Xlogy", "use tf.math.xlogy only of numbers of 0 and more"),
    ("Exp", "subtract the largest first (tf.nn.softmax, tf.reduce_logsumexp), or clip what exp is given below 88"),
    ("Sinh", "clip what it is given: it overflows as exp does"),
    ("Cosh", "clip what it is given: it overflows as exp does"),
    ("Rsqrt", "add a small number before the root: 1 / sqrt(x + 1e-7)"),
    ("Sqrt", "keep what the root is given at 0 or above (tf.maximum)"),
    ("Reciprocal", "add a small number to what is divided by, or use tf.math.divide_no_nan"),
    ("Inv", "add a small number to what is divided by, or use tf.math.divide_no_nan"),
    ("RealDiv", "add a small number to what is divided by, or use tf.math.divide_no_nan"),
    ("Div", "add a small number to what is divided by, or use tf.math.divide_no_nan"),
    ("Xdivy", "add a small number to what is divided by, or use tf.math.divide_no_nan"),
    ("Pow", "keep the base above 0, or the exponent small"),
    ("Acos", "clip what it is given to -1 + 1e-7 and 1 - 1e-7"),
    ("Asin", "clip what it is given to -1 + 1e-7 and 1 - 1e-7"),
    ("Atanh", "clip what it is given to -1 + 1e-7 and 1 - 1e-7"),
    ("Softmax", "a row that is masked with -inf throughout has no softmax: mask with -1e9, or leave such rows out"),
    ("LogSoftmax", "a row that is masked with -inf throughout has none: mask with -1e9, or leave such rows out"),
    ("Cast", "the number is too large for the narrower format: scale it down, or keep this part in float32"),
    ("Mean", "the mean of nothing is no number: leave out empty batches, or use tf.math.divide_no_nan"),
    ("MatMul", "the product overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("BatchMatMul", "the product overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("Conv", "the sum overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("Square", "the square overflows: scale inputs and targets, lower the learning rate, clip gradients"),
)
# Where the forward pass is fine and its derivative is not.
GRADIENT: Table = (
    ("SqrtGrad", "the root's slope is infinite at 0: add a small number before it, sqrt(x + 1e-12)"),
    ("RsqrtGrad", "add a small number before the root: 1 / sqrt(x + 1e-7)"),
    ("Sqrt", "the root's slope is infinite at 0 (a norm's is, too): add a small number before it, sqrt(x + 1e-12)"),
    ("Norm", "a norm's slope is infinite at 0: sqrt(reduce_sum(x**2) + 1e-12)"),
    ("Pow", "the slope is infinite at 0 for an exponent below 1: add a small number to the base"),
    ("Log", "keep what the logarithm is given above 1e-7 (tf.maximum), or take the loss from logits"),
    ("RealDiv", "its slope overflows before it does: keep what is divided by above 1e-7"),
    ("Select", "both branches of tf.where have gradients: make the argument safe before the op, not its result after"),
)
HALF = "float16 ends at 65504: scale the loss (mixed_float16 with a LossScaleOptimizer), or use bfloat16"
ANY = "scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"
DATA = "mend the data: leave out or fill what is no number before training (numpy.isfinite tells which rows)"
WEIGHTS = "lower the learning rate, clip gradients (clipnorm=1.0); an earlier update broke these weights"


def repair(origin: Mapping[str, Any]) -> str:
    """What to do about an origin as the recorder tells it."""
    if origin.get("kind") == "data":
        return DATA
    if origin.get("kind") == "weights":
        return WEIGHTS
    kind, made_from = str(origin.get("type") or ""), str(origin.get("of") or "")
    if overflows_half(origin):
        return HALF
    tries: list[tuple[Table, str]] = [(FORWARD, kind)]
    if origin.get("gradient"):
        tries = [(GRADIENT, kind), (GRADIENT, made_from), (FORWARD, made_from), *tries]
    found = (says for table, name in tries for beginning, says in table if name.startswith(beginning))
    return next(found, ANY)


def overflows_half(origin: Mapping[str, Any]) -> bool:
    """Whether float16 was too narrow: an infinity of numbers that none of the usual suspects makes one of."""
    output = origin.get("output") or {}
    suspect = any(str(origin.get("type") or "").startswith(b) for b in ("Log", "RealDiv", "Rsqrt", "Recip", "Sqrt"))
    return output.get("dtype") == "float16" and bool(output.get("inf")) and not suspect
