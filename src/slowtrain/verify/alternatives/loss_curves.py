"""The loss of a probe over its samples, and when it reaches a given loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.trace import Trace
from slowtrain.verify.learning_rates.rate_probes import probe_losses
from slowtrain.verify.learning_rates.steps_to_loss import is_falling
from slowtrain.verify.measurement.probe_process import Probe

SMOOTHED_SHARE = 0.1  # of a curve's steps are averaged: single batches differ
MIN_SMOOTHED_STEPS = 5


@dataclass(frozen=True)
class LossCurve:
    """``loss[i]`` is the mean loss of the steps up to that which ends with sample ``samples[i]``; seconds are those of
    steady steps. ``falls``: the loss at the end is clearly below that at the start.
    """

    samples: Floats
    loss: Floats
    sample_s: float
    falls: bool

    def at(self, samples: float) -> float | None:
        """The loss after so many samples; None if the run took fewer."""
        if self.samples[-1] < samples:
            return None
        return float(self.loss[max(int(np.searchsorted(self.samples, samples, side="right")) - 1, 0)])

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the loss is at most ``loss``; None if it never is."""
        reached = np.flatnonzero(self.loss <= loss)
        return float(self.samples[reached[0]]) * self.sample_s if len(reached) else None


def loss_curve(probe: Probe, trace: Trace) -> LossCurve | None:
    """The curve of a probe; None if its steps report no loss, or not how many samples they take."""
    losses = probe_losses(probe)
    sizes = np.asarray(trace.steps.size, float)[: len(probe.losses)]
    window = max(MIN_SMOOTHED_STEPS, int(len(losses) * SMOOTHED_SHARE))
    if probe.sample_ms is None or len(losses) < 2 * window or not np.isfinite(losses).all() or not sizes.all():
        return None
    smooth = np.convolve(losses, np.full(window, 1 / window), "valid").astype(float)
    each = float(sizes.sum()) / len(losses)  # an execution of several batches reports one loss
    samples = each * np.arange(window, len(losses) + 1, dtype=float)
    return LossCurve(samples, smooth, probe.sample_ms / 1e3, is_falling(losses))
