"""Measures how fast a core does work that resembles starting ops: branches, small objects, tables.

The costs of a graph call and of an op in it are known in ms from other machines
(:mod:`slowtrain.trace.signals.host.host_work`). Of two of these machines one took 1.6 times as long as the other for
the same steps, traced or not.
"""

from __future__ import annotations

import json
import time

PACE_REPEATS = 30  # the shortest counts, because other work on the machine only makes a run longer
WORK_TEXT = json.dumps([{"name": f"op{i}", "shape": [i, 2 * i], "kind": "op", "at": i / 7} for i in range(100)])
# The duration on the machine where those constants were measured. It is 1.6 times 54 µs (51 to 57, twelve processes),
# measured on a second machine. There nine scripts of eager steps and of traces had a median of 1/1.6 of their former
# step, and their cured versions of 1/1.65 (`recorded` of docs/results/measured.json, 2026-11-25 and 2026-11-26).
REFERENCE_NS = 86_000.0


def measure_core_pace() -> float:
    """The pace of a core relative to the reference: 2.0 is twice as fast. Takes some milliseconds."""
    return round(REFERENCE_NS / min(_time_once_ns() for _ in range(PACE_REPEATS)), 3)


def _time_once_ns() -> int:
    begun_ns = time.perf_counter_ns()
    json.loads(WORK_TEXT)
    return time.perf_counter_ns() - begun_ns
