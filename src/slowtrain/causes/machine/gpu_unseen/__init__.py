"""The machine has a GPU that the framework does not see."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import FactCause
from slowtrain.model import Evidence


class GpuUnseen(FactCause, Cause[Evidence]):
    """The framework trains on the CPU because it does not see the GPU of the machine."""

    title = "The framework does not see the GPU"
    machine_topic = "gpu visibility"
    doctor_rank = 10
