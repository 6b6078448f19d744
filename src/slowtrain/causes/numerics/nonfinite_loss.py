from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.profile.framework_names import is_loss
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.numerics import finite, repairs
from slowtrain.source.spots.numerics import logarithms, roots
from slowtrain.source.spots.numerics import numbers as spotted
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

KERAS = (
    ("tf.maximum", "keras.ops.maximum"),
    ("tf.math.xlogy", "jax.scipy.special.xlogy"),
    ("tf.math.divide_no_nan", "keras.ops.divide_no_nan"),
    ("tf.nn.softmax", "keras.ops.softmax"),
    ("tf.reduce_logsumexp", "keras.ops.logsumexp"),
    ("tf.where", "keras.ops.where"),
    ("reduce_sum(", "sum("),
)
ELSEWHERE = "call tf.debugging.enable_check_numerics() at the start of the script: it raises at the first bad number"


class NonfiniteLoss(Cause):
    """The loss became NaN or infinite: what is trained from there on is lost.

    ## What it means
    One operation overflowed, divided by zero or took the logarithm of zero. From the next update
    on, weights are NaN as well, and every further step computes nothing of use, however fast.

    ## How it is recognised
    The loss that a step or an epoch gave was not a finite number. The recorder looks a few times
    a second, so that the step named is the first that it saw, not always the first. With `slowtrain run
    --on-nonfinite report` (or `stop`) the steps since the last good weights run again, and the first bad one op by op:
    then the step is exact, and the first op, its layer, its line and what it was given are named. In loops that run op
    by op, with `run_eagerly`, and with Keras on the JAX backend as well; where it cannot, the report says why.

    ## What to do
    Look for the logarithm, division, square root or exponential that can leave its range: take losses from logits
    (`from_logits=True`) in float32, scale the inputs, clip gradients, lower the learning rate.
    `slowtrain run --on-nonfinite stop` ends the script there and says which op it was and its usual repair.

    ## When it is not worth it
    A metric may be NaN by definition (no positive sample in a batch), a loss may not.
    """

    title = "The loss is not a finite number"
    loses_training = True
    watch_rules = frozenset({"nonfinite-loss"})
    needs = frozenset({Signal.LOSS})
    scope = "run"
    matters = True
    spoils = True
    words = (
        "log(", "float16", *finite.CROSS_ENTROPY, *finite.BY_NAME, *sorted(spotted.LOGIT_LOSSES),
        "sqrt(", "norm(", "** 0.5", "ops.std", "ops.var", "reduce_std", "reduce_variance", "moments",
    )  # fmt: skip

    def examine(self, trace: Trace) -> Evidence | None:
        checked = found = _checked(trace)
        for event in trace.events_of("nonfinite"):
            if found is None and is_loss(event.name):
                step = float(event.data.get("step") or 0)
                said = (
                    f"{_called(event.name)} was {event.data.get('value', 'not finite')} at step {step:,.0f} or before"
                )
                found = (event.start_ms, said, {"step": step, "at_ms": event.start_ms})
                break
        for event in trace.events_of("epoch"):
            bad = [(k, v) for k, v in (event.data.get("logs") or {}).items() if is_loss(k) and not _finite(v)]
            if bad and checked is None and (found is None or event.start_ms < found[0]):
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
        origin = _origin_place(trace)
        place = origin or (fits[-1] if fits else trace.steps.place)
        says = f"{found[1]}; {left:.0%} of the run came after"
        suspects = [] if origin else [place for place, _ in trace.once(self._suspects)][:2]
        if suspects:
            says += "; the op is not known, but a line of the script can make it"
        return Evidence(
            says,
            {**found[2], "run_after_share": left},
            source_locations.merge_places(suspects, (place,) if place else ()),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        origin = (_check(trace) or {}).get("origin")
        if origin:
            yield Prescription("advice", Effect.CHANGES_TRAINING, _repair(origin))
        suspected = None if origin else next((spot.prescription for _, spot in trace.once(self._suspects)), None)
        if suspected is not None:
            yield suspected
        if suspected is None or not suspected.edits:
            cures = [finite.kept(text) for text in recorded_sources(trace)]
            says, changed = next((cure for cure in cures if cure[1]), (finite.SAYS, ()))
            if changed or not origin:  # where the op is known, what is usual for others is no advice
                yield Prescription("edit" if changed else "advice", Effect.CHANGES_TRAINING, says, edits=changed)
        if not origin:
            yield Prescription("advice", Effect.EXACT, _not_named(trace))

    def _suspects(self, trace: Trace) -> list[tuple[Place, Spot]]:
        """Where no step was run again, the text may show what makes it."""
        return [(Place(text.file, spot.start[0]), spot) for text in recorded_sources(trace) for spot in self.spot(text)]

    def spot(self, source: Source) -> Iterable[Spot]:
        """Logarithms without a floor, losses that take logits for probabilities or the reverse, numbers too small."""
        floor = "take the loss from logits, or keep what a logarithm is taken of above 1e-7"
        logits = "take the loss from logits (from_logits=True): the last layer has no activation"
        squashed = "give the loss the logits: leave out the sigmoid or softmax before it"
        larger = "use a larger number, or compute this in float32"
        apart = f"keep what the root is taken of above {finite.FLOOR}"
        safe = "make safe what the logarithm is taken of: tf.where(y > 0, y, 1.0), or take tf.math.xlogy"
        numbers = spotted
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
        """
        step    1111
        device  kkkk
        @event checked name=step start=20 end=30 data={"mode":"stop","stopped":true,"step":7,"replayed":3,"origin":
        & {"kind":"op","type":"Log","layer":"head","site":["train.py",7],"gradient":false,"of":"Log","inputs":
        & [{"least":0.0,"most":1.0,"count":32,"zero":6}],"output":{"dtype":"float32","inf":6,"nan":0,"count":32}}}
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


def _check(trace: Trace) -> Mapping[str, Any] | None:
    """What running the step again found, where it was."""
    return next((e.data for e in trace.events_of("checked") if e.data.get("origin")), None)


def _repair(origin: Mapping[str, Any]) -> str:
    """As for TensorFlow's op of the same kind; in Keras' words where the step was JAX's."""
    if "like" not in origin:
        return repairs.repair(origin)
    says = repairs.repair({**origin, "type": origin["like"], "of": origin["like"]})
    for theirs, ours in KERAS:
        says = says.replace(theirs, ours)
    return says


def _not_named(trace: Trace) -> str:
    """What to do where nothing is known of the first op: ask for it; or, where that was done, why it cannot be told."""
    if trace.facts.get("on_nonfinite") is None:
        return "name the first op: slowtrain run --on-nonfinite stop SCRIPT"
    tried = next((e.data for e in trace.events_of("checked") if e.data.get("unknown")), None)
    if tried is None:
        return f"the first op is not named: no step of a kind that can run again was seen; {ELSEWHERE}"
    return f"the first op is not named: {tried['unknown']}; {tried.get('instead') or ELSEWHERE}"


def _origin_place(trace: Trace) -> Place | None:
    site = ((_check(trace) or {}).get("origin") or {}).get("site")
    return Place(str(site[0]), int(site[1])) if isinstance(site, (list, tuple)) and len(site) == 2 else None


def _checked(trace: Trace) -> tuple[float, str, dict[str, float]] | None:
    """The first bad step as it was found by running it again."""
    event = next((e for e in trace.events_of("checked") if e.data.get("origin")), None)
    if event is None:
        return None
    origin, step = event.data["origin"], float(event.data.get("step") or 0)
    given = (origin.get("inputs") or [{}])[0]
    numbers = {"step": step, "at_ms": event.start_ms}
    numbers |= {f"input_{k}": float(given[k]) for k in ("least", "most", "zero") if given.get(k) is not None}
    return event.start_ms, f"from step {step:,.0f} on: {_of(origin)}", numbers


def _of(origin: Mapping[str, Any]) -> str:
    """The origin in words: the op, its layer, what it was given."""
    output = origin.get("output") or {}
    made = "NaN" if output.get("nan") else "an infinity"
    layer = f" in layer {origin['layer']}" if origin.get("layer") else ""
    if origin.get("kind") == "data":
        bad = int(output.get("nan") or 0) + int(output.get("inf") or 0)
        return f"{bad:,} of {int(output.get('count') or 0):,} numbers of {origin.get('name')} were NaN or infinite"
    if origin.get("kind") == "weights":
        return f"{origin.get('name')} held {made} already when the step began"
    if origin.get("kind") != "op":
        return f"{origin.get('type') or 'an op'}{layer} was given {made} that came from outside of the step"
    if origin.get("variable"):
        update = f"the update {origin['type']}" if origin.get("type") else "the optimizer's update"
        return f"{update} of {origin['variable']} made {made} of finite numbers{_given(origin)}"
    of = f" (gradient of {origin.get('of')})" if origin.get("gradient") else ""
    return f"{origin.get('type')}{of}{layer} made {made} of finite numbers{_given(origin)}"


def _given(origin: Mapping[str, Any]) -> str:
    """The ranges of the first two inputs."""
    ranges = [
        f"{format_number(i['least'])} to {format_number(i['most'])}"
        + (f" ({i['zero']:,} of {i['count']:,} are 0)" if i.get("zero") else "")
        for i in origin.get("inputs") or ()
        if i.get("least") is not None
    ]
    return f"; its input was {' and '.join(ranges[:2])}" if ranges else ""


def _called(name: str) -> str:
    return "the step's result" if name.startswith("result") else name


def _finite(value: object) -> bool:
    return not isinstance(value, (int, float)) or math.isfinite(value)
