"""What stands beside a recording: how its run ended and what was heard of it, and what was measured later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slowtrain.model import Signal
from slowtrain.trace import Trace, batching

KEPT = {"crossover": "crossover.json", "batch": "batch.json"}
MOST_BYTES = 4 << 20


def measured(folder: Path) -> Mapping[str, Any]:
    """By fact; what is absent or cannot be read is left out."""
    found = {}
    for fact, name in KEPT.items():
        try:
            with (folder / name).open("rb") as file:
                told = json.loads(file.read(MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(told, dict) and str(told.get("schema", "")).startswith(f"slowtrain.{fact}/"):
            found[fact] = told
    return found


def signals(trace: Trace) -> Iterator[Signal]:
    """What of it is known."""
    if trace.fact("launch", "exit_code") is not None:
        yield Signal.ENDING
    # Where there is no device, its memory is not short.
    if trace.fact("launch", "heard") or (trace.fact("devices", default=None) and not trace.on_accelerator):
        yield Signal.ALLOCATOR
    if trace.fact("crossover", default=None):
        yield Signal.CROSSOVER
    yield from batching.signals(trace)
