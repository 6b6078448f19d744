"""The loss is not a finite number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Evidence, Place, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.shared.vocabulary import is_loss
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class FirstBadLoss(Struct, frozen=True):
    """The earliest known loss that is not finite, at ``at_ms`` of the run."""

    at_ms: float
    says: str
    numbers: Mapping[str, float]


class NonfiniteFinding(Struct, frozen=True):
    """``origin``: the first bad op, if a step was run again. ``suspects``: spots in the text, if its line is not known.

    ``lost_share``: of the run after the first bad loss.
    """

    loss: FirstBadLoss
    lost_share: float
    origin: Mapping[str, Any] | None
    suspects: tuple[tuple[Place, Spot], ...]
    where: tuple[Place, ...]


class NonfiniteLoss(Cause[NonfiniteFinding]):
    """The loss became NaN or infinite, so all training from there on is lost."""

    title = "The loss is not a finite number"
    loses_training = True
    watch_rules = frozenset({"nonfinite-loss"})
    needs = frozenset({Signal.LOSS})
    scope = "run"
    matters = True
    spoils = True
    words = (
        "log(", "float16", "BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy",
        "binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy",
        "sigmoid_cross_entropy_with_logits", "softmax_cross_entropy_with_logits",
        "sparse_softmax_cross_entropy_with_logits", "weighted_cross_entropy_with_logits",
        "sqrt(", "norm(", "** 0.5", "ops.std", "ops.var", "reduce_std", "reduce_variance", "moments",
    )  # fmt: skip

    def find(self, trace: Trace) -> NonfiniteFinding | None:
        loss = _first_bad_loss(trace)
        if loss is None:
            return None
        origin = (_origin_event(trace) or {}).get("origin")
        origin_place = _origin_place(origin)
        suspects = () if origin_place else tuple(self._suspects(trace))
        fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.start_ms <= loss.at_ms and e.place]
        place = origin_place or (fits[-1] if fits else trace.steps.place)
        where = source_places.merge_places([place for place, _ in suspects[:2]], (place,) if place else ())
        lost_share = max(1 - loss.at_ms / trace.run_ms, 0.0) if trace.run_ms else 0.0
        return NonfiniteFinding(loss, lost_share, origin, suspects, where)

    def evidence(self, trace: Trace, finding: NonfiniteFinding) -> Evidence:
        says = f"{finding.loss.says}; {finding.lost_share:.0%} of the run came after"
        if finding.suspects:
            says += "; the op is not known, but a line of the script can make such numbers"
        return Evidence(says, {**finding.loss.numbers, "run_after_share": finding.lost_share}, finding.where)

    def remedies(self, trace: Trace, finding: NonfiniteFinding) -> Sequence[Remedy]:
        return []

    def _suspects(self, trace: Trace) -> Iterator[tuple[Place, Spot]]:
        """If no step was run again, the text may show the origin."""
        for source in recorded_sources(trace):
            for spot in self.spot(source):
                yield Place(source.file, spot.start[0]), spot


def _first_bad_loss(trace: Trace) -> FirstBadLoss | None:
    checked = _checked_loss(trace)
    known = checked or _step_loss(trace)
    epoch = None if checked else _epoch_loss(trace)
    return epoch if epoch is not None and (known is None or epoch.at_ms < known.at_ms) else known


def _origin_event(trace: Trace) -> Mapping[str, Any] | None:
    """The result of running the step again, if it found the origin."""
    return next((e.data for e in trace.events_of("checked") if e.data.get("origin")), None)


def _checked_loss(trace: Trace) -> FirstBadLoss | None:
    """The first bad step, as running it again found it."""
    event = next((e for e in trace.events_of("checked") if e.data.get("origin")), None)
    if event is None:
        return None
    origin, step = event.data["origin"], float(event.data.get("step") or 0)
    given = (origin.get("inputs") or [{}])[0]
    numbers = {"step": step, "at_ms": event.start_ms}
    numbers |= {f"input_{k}": float(given[k]) for k in ("least", "most", "zero") if given.get(k) is not None}
    return FirstBadLoss(event.start_ms, f"from step {step:,.0f} on: {_describe_origin(origin)}", numbers)


def _step_loss(trace: Trace) -> FirstBadLoss | None:
    """The first bad loss of a step that the recorder saw."""
    event = next((e for e in trace.events_of("nonfinite") if is_loss(e.name)), None)
    if event is None:
        return None
    step = float(event.data.get("step") or 0)
    name = "the step's result" if event.name.startswith("result") else event.name
    says = f"{name} was {event.data.get('value', 'not finite')} at step {step:,.0f} or before"
    return FirstBadLoss(event.start_ms, says, {"step": step, "at_ms": event.start_ms})


def _epoch_loss(trace: Trace) -> FirstBadLoss | None:
    """The first bad loss in the logs of an epoch."""
    losses = []
    for event in trace.events_of("epoch"):
        bad = [(k, v) for k, v in (event.data.get("logs") or {}).items() if is_loss(k) and not _is_finite(v)]
        if bad:
            epoch = int(event.data.get("epoch") or 0) + 1
            says = f"{bad[0][0]} was {bad[0][1]} at the end of epoch {epoch}"
            losses.append(FirstBadLoss(event.start_ms, says, {"epoch": float(epoch)}))
    return min(losses, key=lambda loss: loss.at_ms, default=None)


def _origin_place(origin: Mapping[str, Any] | None) -> Place | None:
    site = (origin or {}).get("site")
    return Place(str(site[0]), int(site[1])) if isinstance(site, (list, tuple)) and len(site) == 2 else None


def _is_finite(value: object) -> bool:
    return not isinstance(value, (int, float)) or math.isfinite(value)


def _describe_origin(origin: Mapping[str, Any]) -> str:
    """The op, its layer and its inputs."""
    output = origin.get("output") or {}
    made = "NaN" if output.get("nan") else "an infinity"
    layer = f" in layer {origin['layer']}" if origin.get("layer") else ""
    if origin.get("kind") == "data":
        bad = int(output.get("nan") or 0) + int(output.get("inf") or 0)
        return f"{bad:,} of {int(output.get('count') or 0):,} numbers of {origin.get('name')} were NaN or infinite"
    if origin.get("kind") == "weights":
        return f"{origin.get('name')} held {made} before the step began"
    if origin.get("kind") != "op":
        return f"{origin.get('type') or 'an op'}{layer} was given {made} from outside the step"
    if origin.get("variable"):
        update = f"the update {origin['type']}" if origin.get("type") else "the optimizer's update"
        return f"{update} of {origin['variable']} made {made} from finite numbers{_describe_inputs(origin)}"
    of = f" (gradient of {origin.get('of')})" if origin.get("gradient") else ""
    return f"{origin.get('type')}{of}{layer} made {made} from finite numbers{_describe_inputs(origin)}"


def _describe_inputs(origin: Mapping[str, Any]) -> str:
    """The ranges of the first two inputs."""
    ranges = [
        f"{format_number(i['least'])} to {format_number(i['most'])}"
        + (f" ({i['zero']:,} of {i['count']:,} are 0)" if i.get("zero") else "")
        for i in origin.get("inputs") or ()
        if i.get("least") is not None
    ]
    return f"; its input was {' and '.join(ranges[:2])}" if ranges else ""
