"""The losses of a probe, and when it reaches a given loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.trace import Trace
from slowtrain.trace.signals import loss_curve as loss_shapes
from slowtrain.verify.learning_rates import steps_to_loss
from slowtrain.verify.measurement import loss_parity
from slowtrain.verify.measurement.probe_process import Probe


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

    def loss_after(self, samples: float) -> float | None:
        """The mean loss of the last steps until so many samples; None if the run took fewer."""
        if self.samples < samples:
            return None
        return steps_to_loss.end_loss(self.losses[: max(round(samples / self.samples_each), 1)])

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


def probe_losses(probe: Probe) -> Floats:
    """The loss of each step of a probe. Empty if steps report none, or more than one."""
    places = {(o.name, o.at) for o in probe.origins if o.counts}
    if len(places) > 1:
        return np.zeros(0)
    by_step = loss_parity.losses_by_step(probe.losses)
    over = probe.losses_over if len(probe.losses_over) == len(probe.losses) else (1,) * len(probe.losses)
    kept = sorted(by_step)
    return loss_shapes.step_losses([by_step[i] for i in kept], [over[i] for i in kept]) if kept else np.zeros(0)
