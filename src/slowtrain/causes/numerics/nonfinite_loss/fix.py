"""What to do about an op that makes numbers that are not finite, or about a loss of which no op is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowtrain.causes.numerics.nonfinite_loss import NonfiniteFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.trace import Trace

CHECK_NUMERICS_ADVICE = (
    "call tf.debugging.enable_check_numerics() at the start of the script: it raises at the first bad number"
)
Table = tuple[tuple[str, str], ...]
# By the beginning of the op's type in TensorFlow, in the forward pass. The first match counts.
FORWARD: Table = (
    ("Log1p", "keep the argument of log1p above -1"),
    ("Log", "keep the argument of the logarithm above 1e-7 (tf.maximum), or take the loss from logits"),
    ("Xlogy", "use tf.math.xlogy only for numbers of 0 and more"),
    ("Exp", "subtract the largest first (tf.nn.softmax, tf.reduce_logsumexp), or clip the argument of exp below 88"),
    ("Sinh", "clip its argument: it overflows as exp does"),
    ("Cosh", "clip its argument: it overflows as exp does"),
    ("Rsqrt", "add a small number before the root: 1 / sqrt(x + 1e-7)"),
    ("Sqrt", "keep the argument of the root at 0 or above (tf.maximum)"),
    ("Reciprocal", "add a small number to the divisor, or use tf.math.divide_no_nan"),
    ("Inv", "add a small number to the divisor, or use tf.math.divide_no_nan"),
    ("RealDiv", "add a small number to the divisor, or use tf.math.divide_no_nan"),
    ("Div", "add a small number to the divisor, or use tf.math.divide_no_nan"),
    ("Xdivy", "add a small number to the divisor, or use tf.math.divide_no_nan"),
    ("Pow", "keep the base above 0, or the exponent small"),
    ("Acos", "clip its argument to -1 + 1e-7 and 1 - 1e-7"),
    ("Asin", "clip its argument to -1 + 1e-7 and 1 - 1e-7"),
    ("Atanh", "clip its argument to -1 + 1e-7 and 1 - 1e-7"),
    ("Softmax", "a row that is -inf throughout has no softmax: mask with -1e9, or leave out such rows"),
    ("LogSoftmax", "a row that is -inf throughout has no log softmax: mask with -1e9, or leave out such rows"),
    ("Cast", "the number is too large for the narrower format: scale it down, or keep this part in float32"),
    ("Mean", "the mean of nothing is NaN: leave out empty batches, or use tf.math.divide_no_nan"),
    ("MatMul", "the product overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("BatchMatMul", "the product overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("Conv", "the sum overflows: scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"),
    ("Square", "the square overflows: scale inputs and targets, lower the learning rate, clip gradients"),
)
# For a finite forward pass with a derivative that is not finite.
GRADIENT: Table = (
    ("SqrtGrad", "the root's slope is infinite at 0: add a small number before it, sqrt(x + 1e-12)"),
    ("RsqrtGrad", "add a small number before the root: 1 / sqrt(x + 1e-7)"),
    ("Sqrt", "the slope of the root, and of a norm, is infinite at 0: add a small number before it, sqrt(x + 1e-12)"),
    ("Norm", "a norm's slope is infinite at 0: sqrt(reduce_sum(x**2) + 1e-12)"),
    ("Pow", "the slope is infinite at 0 for an exponent below 1: add a small number to the base"),
    ("Log", "keep the argument of the logarithm above 1e-7 (tf.maximum), or take the loss from logits"),
    ("RealDiv", "its slope overflows earlier than its result: keep the divisor above 1e-7"),
    ("Select", "both branches of tf.where have gradients: make the argument safe before the op, not its result after"),
)
KERAS_NAMES: Table = (
    ("tf.maximum", "keras.ops.maximum"),
    ("tf.math.xlogy", "jax.scipy.special.xlogy"),
    ("tf.math.divide_no_nan", "keras.ops.divide_no_nan"),
    ("tf.nn.softmax", "keras.ops.softmax"),
    ("tf.reduce_logsumexp", "keras.ops.logsumexp"),
    ("tf.where", "keras.ops.where"),
    ("reduce_sum(", "sum("),
)
HALF_OVERFLOW_REPAIR = (
    "float16 ends at 65504: scale the loss (mixed_float16 with a LossScaleOptimizer), or use bfloat16"
)
DEFAULT_REPAIR = "scale the inputs, lower the learning rate, clip gradients (clipnorm=1.0)"
DATA_REPAIR = "leave out or fill the numbers of the data that are not finite (numpy.isfinite shows the rows)"
WEIGHTS_REPAIR = "lower the learning rate, clip gradients (clipnorm=1.0); an earlier update broke these weights"


def find_cures(trace: Trace, finding: NonfiniteFinding) -> Iterable[Prescription]:
    origin = finding.origin
    if origin:
        yield Prescription("advice", Effect.CHANGES_TRAINING, _repair_advice(origin))
    suspected = None if origin or not finding.suspects else finding.suspects[0][1].prescription
    if suspected is not None:
        yield suspected
    if suspected is None or not suspected.edits:
        cures = [keras_models.first_stabilising_edit(source) for source in recorded_sources(trace)]
        says, edits = next((cure for cure in cures if cure[1]), (keras_models.GENERAL_ADVICE, ()))
        if edits or not origin:  # if the op is known, the usual repairs of other ops are no advice
            yield Prescription("edit" if edits else "advice", Effect.CHANGES_TRAINING, says, edits=edits)
    if not origin:
        yield Prescription("advice", Effect.EXACT, _unnamed_op_advice(trace))


def _unnamed_op_advice(trace: Trace) -> str:
    """How to find out the first op; if that was tried, why it is not known."""
    if trace.facts.get("on_nonfinite") is None:
        return "name the first op: slowtrain run --on-nonfinite stop SCRIPT"
    tried = next((e.data for e in trace.events_of("checked") if e.data.get("unknown")), None)
    if tried is None:
        return f"the first op is not named: no step was seen that can run again; {CHECK_NUMERICS_ADVICE}"
    return f"the first op is not named: {tried['unknown']}; {tried.get('instead') or CHECK_NUMERICS_ADVICE}"


def _repair_advice(origin: Mapping[str, Any]) -> str:
    """What to do about an origin that the recorder found; in words of Keras if the step was one of JAX."""
    if "like" not in origin:
        return _tensorflow_advice(origin)
    says = _tensorflow_advice({**origin, "type": origin["like"], "of": origin["like"]})
    for tensorflow_name, keras_name in KERAS_NAMES:
        says = says.replace(tensorflow_name, keras_name)
    return says


def _tensorflow_advice(origin: Mapping[str, Any]) -> str:
    """In words of TensorFlow."""
    if origin.get("kind") == "data":
        return DATA_REPAIR
    if origin.get("kind") == "weights":
        return WEIGHTS_REPAIR
    kind, made_from = str(origin.get("type") or ""), str(origin.get("of") or "")
    if _overflows_half(origin):
        return HALF_OVERFLOW_REPAIR
    tries: list[tuple[Table, str]] = [(FORWARD, kind)]
    if origin.get("gradient"):
        tries = [(GRADIENT, kind), (GRADIENT, made_from), (FORWARD, made_from), *tries]
    found = (says for table, name in tries for beginning, says in table if name.startswith(beginning))
    return next(found, DEFAULT_REPAIR)


def _overflows_half(origin: Mapping[str, Any]) -> bool:
    """Whether float16 was too narrow: an infinity that none of the ops with poles made."""
    output = origin.get("output") or {}
    suspect = any(str(origin.get("type") or "").startswith(b) for b in ("Log", "RealDiv", "Rsqrt", "Recip", "Sqrt"))
    return output.get("dtype") == "float16" and bool(output.get("inf")) and not suspect
