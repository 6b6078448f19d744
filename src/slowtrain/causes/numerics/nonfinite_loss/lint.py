"""Where the cause numerics/nonfinite-loss shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.numerics.nonfinite_loss import logarithms, roots
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.numerics import finite
from slowtrain.source.spots.numerics import numbers


def find_spots(source: Source) -> Iterable[Spot]:
    """Logarithms without a floor, losses that take logits for probabilities or the reverse, numbers too small."""
    floor = "take the loss from logits, or keep what a logarithm is taken of above 1e-7"
    logits = "take the loss from logits (from_logits=True): the last layer has no activation"
    squashed = "give the loss the logits: leave out the sigmoid or softmax before it"
    larger = "use a larger number, or compute this in float32"
    apart = f"keep what the root is taken of above {finite.FLOOR}"
    safe = "make safe what the logarithm is taken of: tf.where(y > 0, y, 1.0), or take tf.math.xlogy"
    bare = tuple(roots.bare(source))
    summed = "add the densities' logarithms, and sum up with tf.reduce_logsumexp"
    for nodes, says, cure, made in (
        (numbers.bare_logarithms(source), "this is the logarithm of what may be 0", floor, finite.floored),
        (logarithms.of_labels(source), "a label that is 0, times its logarithm, is NaN", safe, finite.floored),
        (logarithms.of_densities(source), "far from every centre these densities are 0 in float32", summed, None),
        (numbers.loss_of_logits(source), "this loss takes probabilities, the last layer gives any number", logits,
         finite.from_logits),
        (numbers.squashed_twice(source), "this loss takes logits and is given probabilities", squashed, None),
        (numbers.vanishing(source), "this number is 0 in float16", larger, None),
        (numbers.flat_spreads(source), "this spread is 0 where all numbers are alike", finite.ALIKE,
         finite.divided),
        (bare, "this distance has no finite gradient where both are alike", apart, None),
        (roots.masked(source), "tf.where() leaves out the logarithm of 0, not its slope: the gradient is NaN", safe,
         None),
    ):  # fmt: skip
        for node in nodes:
            changed = tuple(made(source)) if made is not None else ()
            cured = Prescription("edit" if changed else "advice", Effect.CHANGES_TRAINING, cure, edits=changed)
            yield Spot(edits.node_start(node), edits.node_end(node), says, cured)
