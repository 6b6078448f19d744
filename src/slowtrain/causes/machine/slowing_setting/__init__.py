"""A setting that slows training is still on."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import FactCause
from slowtrain.model import Evidence


class SlowingSetting(FactCause, Cause[Evidence]):
    """A setting for debugging or for repeatable runs is still on and slows everything down."""

    title = "A setting that slows training is still on"
    machine_topic = "settings"
    doctor_rank = 80
