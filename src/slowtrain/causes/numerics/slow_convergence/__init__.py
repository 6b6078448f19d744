"""The loss falls slowly, or not at all, for its learning rate."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Evidence, Place, Signal
from slowtrain.number_text import format_count, format_number
from slowtrain.script.locations import source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals import loss_curve, rate_sweep
from slowtrain.trace.signals.loss_curve import LossCurve, LossShape
from slowtrain.trace.signals.rate_sweep import MeasuredRates
from slowtrain.whatif import Remedy

# Times fewer steps to the same loss, and its smallest value in the interval. Factors of two between good rates are
# usual: which one is the best changes with the seed and over the run.
MIN_TIMES_FEWER = 2.0
MIN_LOW_TIMES = 1.2
UNPROVEN = "only runs at other learning rates can show whether the rate is the reason"


class SlowLoss(Struct, frozen=True):
    """The ``curve`` of the run's own losses, if there are enough, and ``rates`` if others were measured.

    Without ``rates``, the curve shows that something is wrong. ``where``: lines to change, and the training.
    """

    curve: LossCurve | None
    rates: MeasuredRates | None
    where: tuple[Place, ...] = ()


class SlowConvergence(Cause[SlowLoss]):
    """The learning rate is far from the one at which the loss falls fastest."""

    title = "The loss falls slowly for its learning rate"
    needs = frozenset({Signal.LOSS})
    scope = "run"
    matters = True  # it costs steps, not time per step
    measuring_verb = "rate"

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """Losses alone may show that something is wrong, and never that a rate is good."""
        if rate_sweep.read_rates(trace) is not None:
            return frozenset({Signal.RATES})
        return self.needs if _suspect_curve(trace) is not None else self.needs | {Signal.RATES}

    def find(self, trace: Trace) -> SlowLoss | None:
        rates = rate_sweep.read_rates(trace)
        if rates is not None:
            is_far = rates.times >= MIN_TIMES_FEWER and rates.low >= MIN_LOW_TIMES
            found = SlowLoss(trace.compute_once(loss_curve.read_loss_curve), rates) if is_far else None
        else:
            curve = _suspect_curve(trace)
            found = SlowLoss(curve, None) if curve is not None else None
        if found is None:
            return None
        fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
        step = fits or ([trace.steps.place] if trace.steps.place is not None else [])
        where = source_places.merge_places(self.lines_to_change(trace, found), step[-1:])
        return SlowLoss(found.curve, found.rates, where)

    def evidence(self, trace: Trace, finding: SlowLoss) -> Evidence:
        curve = finding.curve
        if finding.rates is not None:
            return _measured_evidence(finding.rates, curve, finding.where)
        if curve is None:
            raise ValueError("a finding has rates or a curve")
        first, last = curve.means[0], curve.means[-1]
        numbers = {"steps": float(curve.steps), "first_loss": first, "last_loss": last}
        return Evidence(f"{_describe_curve(curve)}; {UNPROVEN}", numbers, finding.where)

    def spoils_in(self, trace: Trace, finding: SlowLoss) -> bool:
        """Whether the loss rises or jumps away, so that the run learns nothing, however fast its steps are."""
        return finding.curve is not None and finding.curve.shape in (LossShape.RISING, LossShape.SPIKED)

    def remedies(self, trace: Trace, finding: SlowLoss) -> Sequence[Remedy]:
        return []  # a step takes as long; how many a run takes is the user's decision


def _suspect_curve(trace: Trace) -> LossCurve | None:
    """The run's losses, if they show that something is wrong."""
    curve = trace.compute_once(loss_curve.read_loss_curve)
    return None if curve is None or curve.shape is LossShape.UNCLEAR else curve


def _measured_evidence(rates: MeasuredRates, curve: LossCurve | None, where: tuple[Place, ...]) -> Evidence:
    least = "at least " if rates.at_least else ""
    ends = f"{format_number(rates.low, 2)} to {format_number(rates.high, 2)}"
    interval = f"over {format_number(rates.low, 2)}" if rates.at_least else ends
    other = f"one of {rates.best:.3g}"
    if rates.warm_up_steps:
        other = f"after a warm-up of {format_count(rates.warm_up_steps, 'step')}"
    says = (
        f"measured over {format_count(rates.steps, 'step')}: a learning rate of {rates.own:.3g} needs {least}"
        f"{format_number(rates.times, 2)} times as many steps to a loss of {format_number(rates.loss)} as {other} "
        f"(95 %: {interval})"
    )
    course = _describe_course(curve) if curve is not None else ""
    numbers = {"rate": rates.own, "best_rate": rates.best, "times_the_steps": rates.times, "low_times": rates.low}
    return Evidence(f"{says}; in the run, {course}" if course else says, numbers, where)


def _describe_course(curve: LossCurve) -> str:
    """What the losses show beside measured rates: also a plateau, which alone shows nothing."""
    if curve.shape is not LossShape.UNCLEAR:
        return _describe_curve(curve)
    since = curve.plateau_start
    if since is None:
        return ""
    stays = f"{_loss_name(curve)} stays at {format_number(curve.means[-1])}"
    return f"{stays} from step {since:,} of {curve.steps:,} on, on a plateau" if since else f"{stays}, on a plateau"


def _loss_name(curve: LossCurve) -> str:
    return "the step's result" if curve.name.startswith("result") else curve.name


def _describe_curve(curve: LossCurve) -> str:
    first, last = (format_number(curve.means[i]) for i in (0, -1))
    name = _loss_name(curve)
    over = f"over {format_count(curve.steps, 'step')}"
    if curve.shape is LossShape.STRAIGHT:
        return (
            f"{name} fell from {first} to {last} {over} in a straight line, as fast at the end as at the start: the "
            "learning rate is too small, or the run too short"
        )
    if curve.shape is LossShape.SPIKED:
        return (
            f"{name} jumped from {format_number(curve.first)} to {format_number(curve.highest)} in the first tenth of "
            f"{format_count(curve.steps, 'step')}, and fell little below its first value since ({last} at the end)"
        )
    if curve.shape is LossShape.RISING:
        return f"{name} diverged: it rose from {first} to {last} {over}"
    return (
        f"{name} oscillated: {curve.swings} times it rose from below its first level to above it {over}; it ended at "
        f"{last}"
    )
