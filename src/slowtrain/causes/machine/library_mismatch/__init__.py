"""Driver, libraries, build and card do not go together."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import Evidence
from slowtrain.source.spots.machine import strategies


class LibraryMismatch(Judged, Cause[Evidence]):
    """Driver, CUDA, cuDNN, the framework's build, Keras and the card do not go together."""

    title = "Driver, libraries, build and card do not go together"
    machine_topic = "versions"
    doctor_rank = 20
    words = (strategies.NAME,)
