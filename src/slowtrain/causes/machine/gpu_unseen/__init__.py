"""There is a GPU, and the framework does not see it."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import Evidence


class GpuUnseen(Judged, Cause[Evidence]):
    """A GPU is there, and the framework trains on the CPU because it does not see it."""

    title = "There is a GPU, and the framework does not see it"
    machine_topic = "gpu visibility"
    doctor_rank = 10
