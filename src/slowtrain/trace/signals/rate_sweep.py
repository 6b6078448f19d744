"""What ``slowtrain rate`` measured of the same script, stored next to a recording: other rates and other batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from slowtrain.trace import Trace

RATE_FACT = "rate"  # key of the sidecar file


class MeasuredBatch(Struct, frozen=True):
    """A batch of ``best`` samples at ``rate``: with the script's own batch, ``times`` as many seconds are needed.

    ``times`` has a 95 % interval from ``low`` to ``high``.
    """

    own: int
    best: int
    rate: float
    times: float
    low: float
    high: float


class MeasuredRates(Struct, frozen=True):
    """The script's own rate, the best one, and how many times as many steps the own one needs to the same loss.

    ``times`` has a 95 % interval from ``low`` to ``high``; ``best`` equals ``own``, and they are 1, if no other rate
    was clearly better. ``at_least``: the own rate never had that loss in ``steps`` steps. ``warm_up_steps``: the best
    rate rises from 0 in so many first steps. ``batch``: a batch that is clearly faster, if there is one.
    """

    own: float
    best: float
    times: float
    low: float
    high: float
    at_least: bool
    loss: float
    steps: int
    warm_up_steps: int = 0
    batch: MeasuredBatch | None = None


def read_rates(trace: Trace) -> MeasuredRates | None:
    """The measurement; None if there is none, or if it is not complete."""
    found = trace.fact(RATE_FACT, default=None)
    if not isinstance(found, Mapping):
        return None
    try:
        own, steps, gain = float(found["rate"]), int(found["steps"]), found["gain"]
        loss = float("nan") if found["loss"] is None else float(found["loss"])
        if not found["complete"]:
            return None
        batch = _read_batch(found.get("batches"))
        if gain is None:
            return MeasuredRates(own, own, 1.0, 1.0, 1.0, False, loss, steps, batch=batch)
        high = math.inf if gain["high"] is None else float(gain["high"])
        times, low, warm_up = float(gain["times"]), float(gain["low"]), int(gain.get("warm_up_steps", 0))
        return MeasuredRates(
            own, float(gain["rate"]), times, low, high, bool(gain["at_least"]), loss, steps, warm_up, batch
        )
    except (KeyError, TypeError, ValueError):
        return None


def _read_batch(found: Mapping[str, Any] | None) -> MeasuredBatch | None:
    gain = found["gain"] if found is not None else None
    if found is None or gain is None:
        return None
    return MeasuredBatch(
        int(found["batch"]), int(gain["batch"]), float(gain["rate"]), float(gain["times"]), float(gain["low"]),
        float(gain["high"]),
    )  # fmt: skip
