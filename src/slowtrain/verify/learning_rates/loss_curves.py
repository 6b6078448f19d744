"""The losses of a probe, and when it reaches a given loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.model.shrinking import LossPoint
from slowtrain.trace import Trace
from slowtrain.trace.signals import loss_curve as loss_shapes
from slowtrain.verify.learning_rates import steps_to_loss
from slowtrain.verify.measurement import loss_parity
from slowtrain.verify.measurement.probe_process import Probe

DRAWN_POINTS = 60  # of the curve that lasts longest


@dataclass(frozen=True)
class LossCurve:
    """``losses`` of a run, one for every ``samples_each`` samples, and the seconds of a steady sample."""

    losses: Floats
    samples_each: float
    sample_s: float

    @property
    def samples(self) -> float:
        return self.samples_each * len(self.losses)

    @property
    def falls(self) -> bool:
        """Whether the loss at the end is clearly below that at the start."""
        return steps_to_loss.is_falling(self.losses)

    def means_over_time(self) -> tuple[Floats, Floats]:
        """Seconds of training, and the mean loss of the last steps until then."""
        first, means = steps_to_loss.mean_losses(self.losses)
        steps = np.arange(first, first + len(means), dtype=np.float64)
        return np.asarray(steps * self.samples_each * self.sample_s, np.float64), means

    def loss_after(self, samples: float) -> float | None:
        """The mean loss of the last steps until so many samples; None if the run took fewer."""
        if self.samples < samples:
            return None
        first, means = steps_to_loss.mean_losses(self.losses)
        after = max(round(samples / self.samples_each) - first, 0)
        return float(means[after]) if after < len(means) else None

    def samples_to(self, loss: float) -> float | None:
        """Samples until the mean loss of the last steps is at most ``loss``; None if it never is."""
        steps = steps_to_loss.first_step_at(self.losses, loss)
        return steps * self.samples_each if steps is not None else None

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the mean loss of the last steps is at most ``loss``; None if it never is."""
        samples = self.samples_to(loss)
        return samples * self.sample_s if samples is not None else None


def loss_curve(probe: Probe, trace: Trace) -> LossCurve | None:
    """The curve of a probe; None if its steps report no finite loss, or not how many samples they take."""
    losses = probe_losses(probe)
    sizes = np.asarray(trace.steps.size, float)[: len(probe.losses)]
    if probe.sample_ms is None or not len(losses) or not np.isfinite(losses).all() or not sizes.all():
        return None
    # An execution of several batches reports one loss.
    return LossCurve(losses, float(sizes.sum()) / len(losses), probe.sample_ms / 1e3)


def drawn_curves(curves: Mapping[str, Sequence[LossCurve | None]]) -> dict[str, tuple[LossPoint, ...]]:
    """For each alternative the mean of its rounds, all at the same seconds, as long as each round lasts.

    An alternative with a round without losses has no points.
    """
    means = {
        name: [one.means_over_time() for one in several if one is not None]
        for name, several in curves.items()
        if several and None not in several
    }
    means = {name: several for name, several in means.items() if all(len(seconds) for seconds, _ in several)}
    ends = {name: min(float(seconds[-1]) for seconds, _ in several) for name, several in means.items()}
    apart_s = max(ends.values(), default=0.0) / DRAWN_POINTS
    found = {}
    for name, several in means.items():
        start = max(float(seconds[0]) for seconds, _ in several)
        ticks = np.arange(int(np.ceil(start / apart_s)), int(ends[name] / apart_s * (1 + 1e-9)) + 1) * apart_s
        losses = np.array([np.interp(ticks, seconds, values) for seconds, values in several])
        rows = zip(ticks, losses.mean(0), losses.min(0), losses.max(0), strict=True)
        found[name] = tuple(LossPoint(*map(float, row)) for row in rows)
    return found


def probe_losses(probe: Probe) -> Floats:
    """The loss of each step of a probe. Empty if steps report none, or more than one."""
    places = {(o.name, o.at) for o in probe.origins if o.counts}
    if len(places) > 1:
        return np.zeros(0)
    by_step = loss_parity.losses_by_step(probe.losses)
    over = probe.losses_over if len(probe.losses_over) == len(probe.losses) else (1,) * len(probe.losses)
    kept = sorted(by_step)
    return loss_shapes.step_losses([by_step[i] for i in kept], [over[i] for i in kept]) if kept else np.zeros(0)
