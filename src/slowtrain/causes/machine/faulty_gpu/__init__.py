"""The card reports faults."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import FactCause
from slowtrain.model import Evidence


class FaultyGpu(FactCause, Cause[Evidence]):
    """The card reports memory errors, or the driver reports faults of the card."""

    title = "The GPU reports faults"
    machine_topic = "card health"
    doctor_rank = 30
