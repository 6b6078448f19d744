"""The build has no machine code for this card, so that the driver compiles it at start."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import FactCause
from slowtrain.model import Evidence, VerdictKind


class JitFromPtx(FactCause, Cause[Evidence]):
    """The build has no machine code for this card: the driver compiles all of it at the first start."""

    title = "The driver compiles the framework's GPU code at start"
    verdict_word = VerdictKind.STARTUP
    machine_topic = "compiled code"
    doctor_rank = 70
