"""What a GPU's PCIe link gives, by generation and lanes as the driver told them during the steps."""

from __future__ import annotations

import numpy as np

from slowtrain.columns.arrays import Bools, Floats
from slowtrain.machine.tables.rule_table import LANE_GBPS
from slowtrain.trace import Trace

MOST_GPUS = 16
KINDS = ("generation", "width")
# Of the link's rate what copies from locked memory reach: 48 to 55 GB/s of the 63 that sixteen lanes of PCIe 5.0 have.
REACHED = 0.8
# Where the link is not known: sixteen lanes of PCIe 3.0. Newer links do more.
USUAL_BYTES_PER_MS = 1.2e7


def during_steps(trace: Trace) -> Bools | None:
    """Which samples of the machine lie within the steady steps; None without samples or steps."""
    at, steady = trace.samples.get("time_ms"), trace.steps.steady
    if at is None or not steady.any():
        return None
    return np.asarray((at >= trace.steps.start_ms[steady][0]) & (at <= trace.steps.end_ms[steady][-1]))


def best(trace: Trace, key: str, inside: Bools) -> float:
    """The largest value of a sampled figure; links save power while they idle."""
    column: Floats | None = trace.samples.get(key)
    seen = column[inside & np.isfinite(column)] if column is not None and len(column) == len(inside) else None
    return float(seen.max()) if seen is not None and len(seen) else 0.0


def locked_bytes_per_ms(trace: Trace) -> float:
    """The rate of copies from locked memory, over the link of the card that worked most."""
    inside = during_steps(trace)
    if inside is None:
        return USUAL_BYTES_PER_MS
    links = [
        (best(trace, f"gpu_util_share_{i}", inside), *(best(trace, f"gpu_pcie_{w}_{i}", inside) for w in KINDS))
        for i in range(MOST_GPUS)
    ]
    _, generation, width = max(links, key=lambda one: (one[1] * one[2] > 0, one[0]))
    return REACHED * LANE_GBPS.get(int(generation), 0.0) * width * 1e6 or USUAL_BYTES_PER_MS
