"""Samples of the machine as columns, and the processor time per step from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats
from slowtrain.columns.steps import Steps
from slowtrain.recording.reader import Recording

MIN_STEP_SHARES = (0.9, 0.75, 0.6)  # of the time between two samples; uses the first share that any stretch reaches


def sample_columns(raw: Recording) -> dict[str, Floats]:
    """Return each figure of the machine samples as a column, with ``time_ms``; gaps are NaN.

    Figures of each GPU become one column per GPU: ``gpu_sm_mhz_0``.
    """
    if not raw.samples:
        return {}
    rows = [_flat_figures(data) for _, data in raw.samples]
    keys = sorted({k for row in rows for k in row})
    columns = {k: np.array([row.get(k, np.nan) for row in rows]) for k in keys}
    columns["time_ms"] = np.array([at for at, _ in raw.samples])
    return columns


def cpu_ms_per_step(samples: Mapping[str, Floats], found: Steps, *keys: str) -> float | None:
    """Return processor time per steady step, the sum of ``keys``, from samples between which only steps ran."""
    if any(k not in samples for k in keys) or len(samples["time_ms"]) < 2:
        return None
    used = np.sum([samples[k] for k in keys], axis=0)
    at, used = samples["time_ms"][np.isfinite(used)], used[np.isfinite(used)]
    if len(at) < 2:
        return None
    busy = intervals.union(found.start_ms[found.steady], found.end_ms[found.steady])
    span = np.diff(at)
    # With short epochs there may be no two samples with only steps between them.
    inside = intervals.covered_length(busy, at[:-1], at[1:])
    only_steps = inside >= next((s for s in MIN_STEP_SHARES if (inside >= s * span).any()), 1.0) * span
    if not only_steps.any():
        return None
    return float(np.diff(used)[only_steps].sum() * 1e3 / span[only_steps].sum() * found.mean_ms)


def _flat_figures(data: Mapping[str, Any]) -> dict[str, float]:
    single = {k: float(v) for k, v in data.items() if isinstance(v, (int, float))}
    several = {
        f"{k}_{i}": float(v)
        for k, values in data.items()
        if k.startswith("gpu_") and isinstance(values, list)
        for i, v in enumerate(values)
        if isinstance(v, (int, float))
    }
    return single | several
