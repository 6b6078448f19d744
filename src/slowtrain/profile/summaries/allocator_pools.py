"""Memory of each allocator in a profile: how full its pool was, and how fragmented the free part was.

TensorFlow's allocator records its figures at every request (https://github.com/openxla/xla
xla/tsl/framework/bfc_allocator.cc, AddTraceMe). ``fragmentation`` is the part of the free memory that is not in the
largest free chunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.arrays import Bools
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane

_NUMBER_STATS = ("bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use", "requested_bytes")
_ALLOCATOR_STATS = ("allocator_name", *_NUMBER_STATS)
MAX_ALLOCATORS = 64
MAX_METADATA_ID = 10_000_000


def read_pools(spaces: Iterable[xplane.Space]) -> dict[str, dict[str, float]]:
    """Return figures by allocator at the moment of its highest use, for allocators with a limit."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for space in spaces:
        for plane in space.planes:
            wanted = allocator_event_ids(plane, framework_names.ALLOCATION_EVENT)
            for line in plane.lines if wanted is not None else ():
                _add_requests(found, line.events(_ALLOCATOR_STATS, wanted))
    return {name: _pool_figures(np.array(rows)) for name, rows in found.items()}


def allocator_event_ids(plane: xplane.Plane, *called: str) -> Bools | None:
    """Return which metadata ids belong to these events, as ``Line.events`` expects; None if the plane has none."""
    keys = [key for key, name in plane.event_names.items() if name in called]
    if not keys or max(keys) > MAX_METADATA_ID:
        return None  # ids in a TPU's planes are hashes, and there are no allocator events
    wanted = np.zeros(max(keys) + 1, bool)
    wanted[keys] = True
    return wanted


def _add_requests(found: dict[str, list[tuple[float, ...]]], events: Any) -> None:
    if not len(events):
        return
    label = events.stats["allocator_name"]
    columns = [events.stats[n].filled(float("nan")).astype(float) for n in _NUMBER_STATS]
    rows = np.stack(columns, axis=1)
    for i, code in enumerate(label.labels()):
        name = label.texts[code] if code >= 0 else ""
        if name and (name in found or len(found) < MAX_ALLOCATORS) and np.isfinite(rows[i, :2]).all():
            found.setdefault(name, []).append(tuple(rows[i]))


def _pool_figures(rows: Any) -> dict[str, float]:
    """Return one allocator's figures. ``peak_bytes`` also covers the time before the profile."""
    used, available, fragmentation, peak, requested = rows.T
    fullest = int(np.argmax(used))
    limit = float((used + available).max())
    most = float(np.nanmax(peak)) if np.isfinite(peak).any() else float(used.max())
    found = {
        "in_use_bytes": float(used[fullest]),
        "limit_bytes": limit,
        "peak_bytes": max(most, float(used.max())),
        "requests": float(len(rows)),
        "largest_request_bytes": float(np.nanmax(requested)) if np.isfinite(requested).any() else 0.0,
    }
    if np.isfinite(fragmentation).any():
        found["fragmentation_share"] = float(median_value(fragmentation[~np.isnan(fragmentation)]))
    return found
