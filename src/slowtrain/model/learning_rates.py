"""What ``slowtrain rate`` measures: losses at other learning rates and with other batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RatePoint:
    """One process at a learning rate: the mean loss of the last tenth of its steps; None if it was not finite.

    ``steps``: after so many steps it had the loss of the sweep; None if it never had it. ``warm_up_steps``: the rate
    rose linearly from 0 in so many first steps.
    """

    rate: float
    loss: float | None
    steps: int | None
    warm_up_steps: int = 0


@dataclass(frozen=True)
class RateGain:
    """``rate`` against the script's own over pairs of processes with other seeds.

    ``times`` as many steps are needed at the script's own rate, with a 95 % interval; ``high`` is None if there is no
    upper bound. ``at_least``: the script's own rate never had that loss, so that all its steps are counted.
    ``warm_up_steps``: the rate rose linearly from 0 in so many first steps.
    """

    rate: float
    times: float
    low: float
    high: float | None
    pairs: int
    at_least: bool
    warm_up_steps: int = 0


@dataclass(frozen=True)
class BatchPoint:
    """One process with batches of ``batch`` samples, at ``rate``.

    ``loss``: the mean loss before as many samples as the script's own batch took; None if it was not finite, or the
    process took fewer. ``samples`` and ``seconds`` of training until it had the loss of the comparison; None if it
    never had it. ``taken``: the samples that the process took in all.
    """

    batch: int
    rate: float
    loss: float | None
    samples: int | None
    seconds: float | None
    taken: int


@dataclass(frozen=True)
class BatchGain:
    """A batch and its rate against the script's own batch, over pairs of processes with other seeds.

    ``times`` as many seconds are needed with the script's own batch to the same loss, with a 95 % interval.
    ``samples_times`` as many samples are needed with the other batch.
    """

    batch: int
    rate: float
    times: float
    low: float
    high: float
    samples_times: float
    pairs: int


@dataclass(frozen=True)
class BatchSweep:
    """Losses with other batches, whose rates are scaled ("linearly" or "by the square root") from ``rate``.

    ``rate`` is the best one, or the script's own if no other was clearly better. ``loss``: what is counted to: the loss
    that the script's own batch reaches. ``gain``: of the batch that has it in the fewest seconds; None if none was
    clearly faster, or if it is not known, because the time ended (``complete`` is False then).
    """

    batch: int
    rate: float
    scaling: str
    loss: float | None
    points: tuple[BatchPoint, ...]
    gain: BatchGain | None
    complete: bool


@dataclass(frozen=True)
class RateSweep:
    """Losses at multiples of a script's learning rate, over the same number of steps, samples and seed.

    ``loss``: what the steps to it are counted for: the loss that the script's own rate reaches, or, if the loss at that
    rate does not fall, half of the way down to that of the best rate. ``gain``: of the best rate; None if no other was
    clearly better, or if it is not known, because the time ended (``complete`` is False then). ``seeded``: whether
    other seeds gave other losses. ``measured_on``: kind and name of the device that took the steps. ``batches``: None
    if no other batch was tried; a note says why.
    """

    script: str
    rate: float
    place: str
    steps: int
    loss: float | None
    points: tuple[RatePoint, ...]
    gain: RateGain | None
    complete: bool
    seeded: bool | None = None
    measured_on: Mapping[str, str | None] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = field(default=())
    batches: BatchSweep | None = None
