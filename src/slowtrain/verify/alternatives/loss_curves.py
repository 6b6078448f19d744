"""The loss of a probe over its samples, and when it reaches a given loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slowtrain.trace import Trace
from slowtrain.verify.measurement.probe_process import Probe

Floats = NDArray[np.float64]

SMOOTHED_SHARE = 0.1  # of a curve's steps are averaged: single batches differ
MIN_SMOOTHED_STEPS = 5


@dataclass(frozen=True)
class LossCurve:
    """``loss[i]`` is the mean loss of the steps up to that which ends with sample ``samples[i]``; seconds are those of
    steady steps.
    """

    samples: Floats
    loss: Floats
    sample_s: float

    def at(self, samples: float) -> float:
        """The loss after so many samples."""
        return float(self.loss[max(int(np.searchsorted(self.samples, samples, side="right")) - 1, 0)])

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the loss is at most ``loss``; None if it never is."""
        reached = np.flatnonzero(self.loss <= loss)
        return float(self.samples[reached[0]]) * self.sample_s if len(reached) else None


def loss_curve(probe: Probe, trace: Trace) -> LossCurve | None:
    """The curve of a probe; None if its steps report no loss, or not how many samples they take."""
    if probe.sample_ms is None or not probe.losses:
        return None
    sizes = np.asarray(trace.steps.size, float)[: len(probe.losses)]
    losses = batch_losses(probe.losses, trace.steps.block[: len(probe.losses)], running=not probe.origins)
    count = min(len(sizes), len(losses))
    sizes, losses = sizes[:count], losses[:count]
    window = max(MIN_SMOOTHED_STEPS, int(count * SMOOTHED_SHARE))
    if count < 2 * window or not np.isfinite(losses).all() or (sizes <= 0).any():
        return None
    smooth = np.convolve(losses, np.full(window, 1 / window), "valid")
    return LossCurve(np.cumsum(sizes)[window - 1 :], smooth, probe.sample_ms / 1e3)


def batch_losses(rows: Sequence[Mapping[str, float]], block: ArrayLike, *, running: bool) -> Floats:
    """The loss of each batch; NaN where a step reports none.

    ``running``: the rows are Keras' means since the start of an epoch, of which ``block`` has the number.
    """
    names = [name for row in rows for name in row]
    name = next((n for n in names if n == "loss"), next((n for n in names if "loss" in n), names[0] if names else ""))
    epoch = np.asarray(block)
    means = np.array([row.get(name, np.nan) for row in rows])
    if not running or name != "loss":
        return means
    found, start = np.empty_like(means), 0
    for at, mean in enumerate(means):
        if at == 0 or at >= len(epoch) or epoch[at] != epoch[at - 1]:
            start = at
        steps = at - start + 1
        found[at] = mean if steps == 1 else steps * mean - (steps - 1) * means[at - 1]
    return found
