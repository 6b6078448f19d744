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


def computed_on(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Kind and name of the device that took a recording's steps: an accelerator where there is one."""
    kinds = [str(d.get("kind")) for d in facts.get("devices") or ()]
    kind = next((k for k in kinds if k != "CPU"), kinds[0] if kinds else None)
    machine = facts.get("machine") or {}
    gpus = (machine.get("gpu") or {}).get("devices") or ()
    name = gpus[0].get("name") if gpus and kind == "GPU" else (machine.get("cpu") or {}).get("model")
    return {"kind": kind, "name": name if isinstance(name, str) else None}


def source_sha256(facts: Mapping[str, Any]) -> str | None:
    """Of the script's text as it ran; None where the recording has none."""
    import hashlib  # for what was measured beside it alone: loading it takes a hundredth of an answer

    texts = [*(facts.get("sources") or {}).values()]
    return hashlib.sha256(str(texts[-1]).encode("utf-8", "surrogatepass")).hexdigest() if texts else None


def measured(folder: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """By fact; what is absent or cannot be read is left out, and with a note what is not of this script and device."""
    found: dict[str, Any] = {}
    notes = []
    for fact, name in KEPT.items():
        try:
            with (folder / name).open("rb") as file:
                told = json.loads(file.read(MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(told, dict) and str(told.get("schema", "")).startswith(f"slowtrain.{fact}/"):
            other = _other(told, facts)
            if other:
                notes.append(f"{name} beside this recording is of {other}, and was not used; measure again")
            else:
                found[fact] = told
    return {**found, **({"notes": [*facts.get("notes", ()), *notes]} if notes else {})}


def _other(told: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """What a measurement is of, where that is not this recording's script or device; empty where nothing tells so."""
    source, own = told.get("source_sha256"), source_sha256(facts)
    if source and own and source != own:
        return "another script, or of another text of this one"
    sides = told.get("sides")
    rows = [told, *(sides if isinstance(sides, list) else ())]
    devices = [on for row in rows if isinstance(row, dict) and isinstance(on := row.get("measured_on"), dict)]
    here = computed_on(facts)
    if devices and not any(_same(on, here) for on in devices):
        return "another device (" + ", ".join(str(on.get("name") or on.get("kind")) for on in devices) + ")"
    return ""


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """What either does not tell, as the name of a CPU in a container may be, tells nothing."""
    return all(one.get(k) == other.get(k) or None in (one.get(k), other.get(k)) for k in ("kind", "name"))


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
