"""The loss is not a finite number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slowtrain.causes import Cause
from slowtrain.causes.numerics.nonfinite_loss import fix
from slowtrain.columns.steps import is_loss
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.source.cures.numerics import finite
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


class NonfiniteLoss(Cause[Evidence]):
    """The loss became NaN or infinite: what is trained from there on is lost."""

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

    def find(self, trace: Trace) -> Evidence | None:
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

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
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


def _check(trace: Trace) -> Mapping[str, Any] | None:
    """What running the step again found, where it was."""
    return next((e.data for e in trace.events_of("checked") if e.data.get("origin")), None)


def _repair(origin: Mapping[str, Any]) -> str:
    """As for TensorFlow's op of the same kind; in Keras' words where the step was JAX's."""
    if "like" not in origin:
        return fix.repair(origin)
    says = fix.repair({**origin, "type": origin["like"], "of": origin["like"]})
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
