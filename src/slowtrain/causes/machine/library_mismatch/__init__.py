"""Versions of driver, libraries, build and card do not match."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import FactCause
from slowtrain.model import Evidence


class LibraryMismatch(FactCause, Cause[Evidence]):
    """The versions of driver, CUDA, cuDNN, the framework's build, Keras and the card do not match."""

    title = "Versions of driver, libraries, build and card do not match"
    machine_topic = "versions"
    doctor_rank = 20
    words = ("MultiWorkerMirroredStrategy",)
