"""Reports a GPU whose driver stopped answering before the run ended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slowtrain.number_text import format_number
from slowtrain.trace import Trace

MIN_MISSING_SAMPLES = (
    5  # without figures of any card, at the end of the run: fewer may be one slow answer of the driver
)


def lost_card_notes(trace: Trace) -> Iterator[str]:
    """Says that samples of the machine continue without the card's figures, and since when."""
    columns = [column for key, column in trace.samples.items() if key.startswith("gpu_")]
    if not columns:
        return
    told = np.flatnonzero(np.isfinite(np.array(columns)).any(axis=0))
    at = trace.samples["time_ms"]
    if len(told) and len(at) - 1 - told[-1] >= MIN_MISSING_SAMPLES:
        yield (
            f"the GPU's driver returned no figures from {format_number(at[told[-1]] / 1e3)} s of the run on: the "
            "card's figures cover the time before that; `slowtrain doctor` and the kernel's log show whether the "
            "card was lost"
        )
