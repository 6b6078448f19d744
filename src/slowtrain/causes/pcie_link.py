"""The rate of a GPU's PCIe link, by the generation and lanes that the driver reported during the steps."""

from __future__ import annotations

import numpy as np

from slowtrain.columns.arrays import Bools, Floats
from slowtrain.machine.tables.rule_table import LANE_GBPS
from slowtrain.trace import Trace

MAX_GPUS = 16
LINK_COLUMNS = ("generation", "width")
# Share of the link's rate that copies from locked memory reach: 48 to 55 GB/s of the 63 of sixteen lanes of PCIe 5.0.
REACHED_RATE_SHARE = 0.8
# If the link is not known: sixteen lanes of PCIe 3.0. Newer links are faster.
DEFAULT_BYTES_PER_MS = 1.2e7


def samples_in_steps(trace: Trace) -> Bools | None:
    """Which samples of the machine are within the steady steps; None without samples or steps."""
    at, steady = trace.samples.get("time_ms"), trace.steps.steady
    if at is None or not steady.any():
        return None
    return np.asarray((at >= trace.steps.start_ms[steady][0]) & (at <= trace.steps.end_ms[steady][-1]))


def max_sample(trace: Trace, key: str, inside: Bools) -> float:
    """The largest value of a column, because links save power while they idle."""
    column: Floats | None = trace.samples.get(key)
    seen = column[inside & np.isfinite(column)] if column is not None and len(column) == len(inside) else None
    return float(seen.max()) if seen is not None and len(seen) else 0.0


def locked_copy_bytes_per_ms(trace: Trace) -> float:
    """The rate of copies from locked memory, over the link of the busiest card."""
    inside = samples_in_steps(trace)
    if inside is None:
        return DEFAULT_BYTES_PER_MS
    links = [
        (
            max_sample(trace, f"gpu_util_share_{i}", inside),
            *(max_sample(trace, f"gpu_pcie_{w}_{i}", inside) for w in LINK_COLUMNS),
        )
        for i in range(MAX_GPUS)
    ]
    _, generation, width = max(links, key=lambda one: (one[1] * one[2] > 0, one[0]))
    return REACHED_RATE_SHARE * LANE_GBPS.get(int(generation), 0.0) * width * 1e6 or DEFAULT_BYTES_PER_MS
