"""What ``slowtrain rate`` measured of the same script, stored next to a recording: losses at other learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slowtrain.trace import Trace

RATE_FACT = "rate"  # key of the sidecar file


@dataclass(frozen=True)
class MeasuredRates:
    """The script's own rate, the best one, and how many times as many steps the own one needs to the same loss.

    ``times`` has a 95 % interval from ``low`` to ``high``; ``best`` equals ``own``, and they are 1, if no other rate
    was clearly better. ``at_least``: the own rate never had that loss in ``steps`` steps.
    """

    own: float
    best: float
    times: float
    low: float
    high: float
    at_least: bool
    loss: float
    steps: int


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
        if gain is None:
            return MeasuredRates(own, own, 1.0, 1.0, 1.0, False, loss, steps)
        high = math.inf if gain["high"] is None else float(gain["high"])
        times, low = float(gain["times"]), float(gain["low"])
        return MeasuredRates(own, float(gain["rate"]), times, low, high, bool(gain["at_least"]), loss, steps)
    except (KeyError, TypeError, ValueError):
        return None
