"""Where the cause numerics/nonfinite-loss shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.numerics.nonfinite_loss import nonfinite_gradients
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import finite_losses
from slowtrain.script.lint_rules.compute import numeric_ranges
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

CLIPPED_LOGARITHM_CURE = "take the loss from logits, or keep the argument of the logarithm above 1e-7"
LOGITS_CURE = "take the loss from logits (from_logits=True): the last layer has no activation"
SINGLE_ACTIVATION_CURE = "give the loss the logits: remove the sigmoid or softmax before it"
SMALL_NUMBER_CURE = "use a larger number, or compute this in float32"
ROOT_CURE = f"keep the argument of the root above {finite_losses.FLOOR_TEXT}"
ZERO_LABEL_CURE = "make the argument of the logarithm safe: tf.where(y > 0, y, 1.0), or use tf.math.xlogy"
DENSITY_CURE = "add the densities' logarithms, and sum up with tf.reduce_logsumexp"


def find_spots(source: Source) -> Iterable[Spot]:
    """Logarithms of 0, losses that take logits for probabilities or the reverse, and numbers that are too small."""
    for nodes, says, cure, edit in (
        (numeric_ranges.bare_logarithms(source), ("this is the logarithm of a number that may "
                                                 "be 0"), CLIPPED_LOGARITHM_CURE,
         finite_losses.floor_logarithms),
        (nonfinite_gradients.find_label_logarithms(source), "a label that is 0, times its logarithm, is NaN",
         ZERO_LABEL_CURE, finite_losses.floor_logarithms),
        (nonfinite_gradients.find_density_logarithms(source), "far from every center these densities are 0 in float32",
         DENSITY_CURE, None),
        (numeric_ranges.loss_of_logits(source), "this loss takes probabilities, but the last layer returns any number",
         LOGITS_CURE, finite_losses.use_logits),
        (numeric_ranges.doubly_squashed_losses(source), ("this loss takes logits, but gets "
                                                        "probabilities"), SINGLE_ACTIVATION_CURE,
         None),
        (numeric_ranges.vanishing_constants(source), "this number is 0 in float16", SMALL_NUMBER_CURE, None),
        (numeric_ranges.flat_spreads(source), ("this spread is 0 if all numbers are "
                                              "equal"), finite_losses.DIVISOR_ADVICE,
                                              finite_losses.floor_tensor_divisors),
        (nonfinite_gradients.find_unbounded_roots(source),
         "this distance has no finite gradient if both points are equal", ROOT_CURE, None),
        (nonfinite_gradients.find_masked_logarithms(source),
         "tf.where() discards the logarithm of 0, but not its slope: the gradient is NaN", ZERO_LABEL_CURE, None),
    ):  # fmt: skip
        for node in nodes:
            edits_ = tuple(edit(source)) if edit is not None else ()
            kind = "edit" if edits_ else "advice"
            prescription = Prescription(kind, Effect.CHANGES_TRAINING, cure, edits=edits_)
            yield Spot(edits.node_start(node), edits.node_end(node), says, prescription)
