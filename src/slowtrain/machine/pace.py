"""How fast a core of this machine does work of the kind that starting ops is: branches, small objects, tables.

What a call of a graph and an op in it cost is known in ms from other machines (:mod:`slowtrain.trace.host`); of two of
them one took 1.6 times as long as the other for the same steps, traced or not.
"""

from __future__ import annotations

import json
import time

TIMES = 30  # the shortest counts: what else the machine does only makes it longer
TEXT = json.dumps([{"name": f"op{i}", "shape": [i, 2 * i], "kind": "op", "at": i / 7} for i in range(100)])
# What one takes where those constants are from: 1.6 times the 54 µs (51 to 57, twelve processes) of a machine on which
# nine scripts of eager steps and of traces had a median of 1/1.6 of their former step, and their cured ones of 1/1.65
# (`recorded` of clinic/measured.json, 2026-11-25 and 2026-11-26).
REFERENCE_NS = 86_000.0


def measured() -> float:
    """A core's pace just now, in those of the reference: 2.0 is twice as fast. Takes some milliseconds."""
    return round(REFERENCE_NS / min(_once() for _ in range(TIMES)), 3)


def _once() -> int:
    begun_ns = time.perf_counter_ns()
    json.loads(TEXT)
    return time.perf_counter_ns() - begun_ns
