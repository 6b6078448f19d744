"""A setting that slows training was left on."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import Evidence


class SlowingSetting(Judged, Cause[Evidence]):
    """A setting for finding errors, or for repeatable runs, was left on and slows everything down."""

    title = "A setting that slows training was left on"
    machine_topic = "settings"
    doctor_rank = 80
