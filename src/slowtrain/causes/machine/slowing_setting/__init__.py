"""A setting that slows training is still on."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import Evidence


class SlowingSetting(Judged, Cause[Evidence]):
    """A setting for debugging or for repeatable runs is still on and slows everything down."""

    title = "A setting that slows training is still on"
    machine_topic = "settings"
    doctor_rank = 80
