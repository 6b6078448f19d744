from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, Spot
from slowtrain.source import Source, edits
from slowtrain.source.cures.numerics import finite
from slowtrain.source.reading.recorded import texts_of
from slowtrain.source.spots.numerics import numbers as spotted
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class NonfiniteLoss(Cause):
    """The loss became NaN or infinite: what is trained from there on is lost.

    ## What it means
    One operation overflowed, divided by zero or took the logarithm of zero. From the next update
    on, weights are NaN as well, and every further step computes nothing of use, however fast.

    ## How it is recognised
    The loss that a step or an epoch gave was not a finite number. The recorder looks a few times
    a second, so that the step named is the first that it saw, not always the first.

    ## What to do
    Look for the logarithm, division, square root or exponential that can leave its range: take losses from logits
    (`from_logits=True`) in float32, scale the inputs, clip gradients, lower the learning rate.
    `tf.debugging.enable_check_numerics()` stops at the first op that makes such a number, and slows the run.

    ## When it is not worth it
    A metric may be NaN by definition (no positive sample in a batch), a loss may not.
    """

    title = "The loss is not a finite number"
    needs = frozenset({Signal.LOSS})
    scope = "run"
    matters = True
    spoils = True
    words = (
        "log(", "float16", *finite.CROSS_ENTROPY, *finite.BY_NAME, *sorted(spotted.LOGIT_LOSSES),
    )  # fmt: skip

    def examine(self, trace: Trace) -> Evidence | None:
        found: tuple[float, str, dict[str, float]] | None = None
        for event in trace.events_of("nonfinite"):
            if _is_loss(event.name):
                step = float(event.data.get("step") or 0)
                said = (
                    f"{_called(event.name)} was {event.data.get('value', 'not finite')} at step {step:,.0f} or before"
                )
                found = (event.start_ms, said, {"step": step, "at_ms": event.start_ms})
                break
        for event in trace.events_of("epoch"):
            bad = [(k, v) for k, v in (event.data.get("logs") or {}).items() if _is_loss(k) and not _finite(v)]
            if bad and (found is None or event.start_ms < found[0]):
                epoch = int(event.data.get("epoch") or 0) + 1
                found = (
                    event.start_ms,
                    f"{bad[0][0]} was {bad[0][1]} at the end of epoch {epoch}",
                    {"epoch": float(epoch)},
                )
        if found is None:
            return None
        left = max(1 - found[0] / trace.run_ms, 0.0) if trace.run_ms else 0.0
        fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.start_ms <= found[0] and e.place]
        place = fits[-1] if fits else trace.steps.place
        return Evidence(
            f"{found[1]}; {left:.0%} of the run came after",
            {**found[2], "run_after_share": left},
            (place,) if place else (),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        cures = [finite.kept(text) for text in texts_of(trace)]
        says, changed = next((cure for cure in cures if cure[1]), (finite.SAYS, ()))
        yield Prescription("edit" if changed else "advice", Effect.CHANGES_TRAINING, says, edits=changed)
        yield Prescription("advice", Effect.EXACT, "find the op with tf.debugging.enable_check_numerics()")

    def spot(self, source: Source) -> Iterable[Spot]:
        """Logarithms without a floor, losses that take logits for probabilities or the reverse, numbers too small."""
        floor = "take the loss from logits, or keep what a logarithm is taken of above 1e-7"
        logits = "take the loss from logits (from_logits=True): the last layer has no activation"
        squashed = "give the loss the logits: leave out the sigmoid or softmax before it"
        larger = "use a larger number, or compute this in float32"
        numbers = spotted
        for nodes, says, cure, made in (
            (numbers.bare_logarithms(source), "the logarithm of a probability, which may be 0", floor, finite.floored),
            (numbers.loss_of_logits(source), "this loss takes probabilities, the last layer gives any number", logits,
             finite.from_logits),
            (numbers.squashed_twice(source), "this loss takes logits and is given probabilities", squashed, None),
            (numbers.vanishing(source), "this number is 0 in float16", larger, None),
        ):  # fmt: skip
            for node in nodes:
                changed = tuple(made(source)) if made is not None else ()
                cured = Prescription("edit" if changed else "advice", Effect.CHANGES_TRAINING, cure, edits=changed)
                yield Spot(edits.start(node), edits.end(node), says, cured)

    fixes = (
        (
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 4), np.random.randint(2, size=(256, 1))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "binary_crossentropy")
        history = model.fit(x, y)
        """,
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 4), np.random.randint(2, size=(256, 1))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
        history = model.fit(x, y)
        """,
        ),
    )

    fires = (
        """
        step    1111
        device  kkkk
        @event nonfinite name=loss start=20 data={"step": 5, "value": "nan"}
        """,
        """
        step    1111
        device  kkkk
        @event epoch name=end start=40 data={"epoch": 1, "logs": {"loss": NaN, "accuracy": 0.1}}
        """,
    )
    quiet = (
        """
        step    1111
        device  kkkk
        @event epoch name=end start=40 data={"epoch": 1, "logs": {"loss": 0.3, "auc": NaN}}
        """,
        """
        step    1111
        device  kkkk
        @event nonfinite name=psnr start=20 data={"step": 5, "value": "inf"}
        """,
    )


def _is_loss(name: str) -> bool:
    """Keras calls it ``loss``; a function's results have no name but ``result``."""
    return "loss" in name or name.startswith("result")


def _called(name: str) -> str:
    return "the step's result" if name.startswith("result") else name


def _finite(value: object) -> bool:
    return not isinstance(value, (int, float)) or math.isfinite(value)
