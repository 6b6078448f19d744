"""Files of a recording besides its main file: profiles of windows, ``launch.json``, and what was measured later.

If a file is damaged or missing, the recording is read without it, and a note says so. Its content is then unknown,
which is not a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slowtrain.columns.spans import Event
from slowtrain.errors import InputError
from slowtrain.model import Signal
from slowtrain.profile import profile_files
from slowtrain.profile.format.wire_format import ProtoFile
from slowtrain.recording.recording_folder import LAUNCH_FILE, read_launch
from slowtrain.trace import Trace
from slowtrain.trace.signals import rate_sweep
from slowtrain.trace.signals.device import batch_curve

SIDECAR_FILES = {"crossover": "crossover.json", "batch": "batch.json", "rate": "rate.json"}
MAX_SIDECAR_BYTES = 4 << 20


def with_damage_notes(folder: Path, events: Iterable[Event], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``facts`` with notes of unreadable files; ``unread`` names the windows whose profile is one of them."""
    damaged = ((own, _file_damage(file)) for _, own, file in deep_window_files(folder, events))
    unread = tuple(f"{own.name} {wrong}" for own, wrong in damaged if wrong)
    notes = [f"the profile of {one}: the work inside its steps is not known" for one in unread]
    if (folder / LAUNCH_FILE).exists() and not read_launch(folder):
        notes.append(f"{LAUNCH_FILE} cannot be read: the run's command and exit code are not known")
    if not notes:
        return dict(facts)
    return {**facts, "unread": unread, "notes": [*facts.get("notes", ()), *notes]}


def deep_window_files(folder: Path, events: Iterable[Event]) -> Iterator[tuple[Event, Path, Path | None]]:
    """Yield each deep window with its folder and its profile; None if the profile is missing."""
    for event in events:
        if event.lane == "window" and event.name == "profile" and "begun_ns" in event.data:
            # Only the folder's name is used, because the recording may have been moved.
            own = folder / Path(str(event.data.get("folder", "?"))).name
            yield event, own, min(own.glob("**/*.xplane.pb"), default=None)


def _file_damage(path: Path | None) -> str:
    """Return what is wrong with a profile, from the outermost fields only: in a truncated file one exceeds the end."""
    if path is None:
        return "is missing"
    try:
        if not path.stat().st_size:
            return "is empty"
        data = profile_files.profile_bytes(path)
        for _ in ProtoFile(data, path.name).fields(0, len(data)):
            pass
    except (InputError, IndexError, OSError):
        return "is damaged"
    return ""


def computing_device(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Return kind and name of the device that took a recording's steps: an accelerator if there is one."""
    kinds = [str(d.get("kind")) for d in facts.get("devices") or ()]
    kind = next((k for k in kinds if k != "CPU"), kinds[0] if kinds else None)
    machine = facts.get("machine") or {}
    gpus = (machine.get("gpu") or {}).get("devices") or ()
    name = gpus[0].get("name") if gpus and kind == "GPU" else (machine.get("cpu") or {}).get("model")
    return {"kind": kind, "name": name if isinstance(name, str) else None}


def source_sha256(facts: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the script's text as it ran; None if the recording has no text."""
    import hashlib  # only for stored measurements: importing it takes a hundredth of an answer's time

    texts = [*(facts.get("sources") or {}).values()]
    return hashlib.sha256(str(texts[-1]).encode("utf-8", "surrogatepass")).hexdigest() if texts else None


def read_sidecar_facts(folder: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return later measurements by fact.

    Missing or unreadable ones are left out. A note names those that belong to another script or device.
    """
    found: dict[str, Any] = {}
    notes = []
    for fact, name in SIDECAR_FILES.items():
        try:
            with (folder / name).open("rb") as file:
                document = json.loads(file.read(MAX_SIDECAR_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict) and str(document.get("schema", "")).startswith(f"slowtrain.{fact}/"):
            other = _other_subject(document, facts)
            if other:
                notes.append(f"{name} in this recording's folder belongs to {other} and was not used; measure again")
            else:
                found[fact] = document
    return {**found, **({"notes": [*facts.get("notes", ()), *notes]} if notes else {})}


def _other_subject(document: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return what a measurement belongs to, if not to this recording's script and device; else empty."""
    source, own = document.get("source_sha256"), source_sha256(facts)
    if source and own and source != own:
        return "another script or another version of this script"
    sides = document.get("sides")
    rows = [document, *(sides if isinstance(sides, list) else ())]
    devices = [on for row in rows if isinstance(row, dict) and isinstance(on := row.get("measured_on"), dict)]
    here = computing_device(facts)
    if devices and not any(_is_same_device(on, here) for on in devices):
        return "another device (" + ", ".join(str(on.get("name") or on.get("kind")) for on in devices) + ")"
    return ""


def _is_same_device(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two devices may be equal. An unknown value, such as a CPU's name in a container, matches any."""
    return all(one.get(k) == other.get(k) or None in (one.get(k), other.get(k)) for k in ("kind", "name"))


def sidecar_signals(trace: Trace) -> Iterator[Signal]:
    """Yield what is known from these facts."""
    if trace.fact("launch", "exit_code") is not None:
        yield Signal.ENDING
    # Without a device, its memory cannot be short.
    if trace.fact("launch", "heard") or (trace.fact("devices", default=None) and not trace.on_accelerator):
        yield Signal.ALLOCATOR
    if trace.fact("crossover", default=None):
        yield Signal.CROSSOVER
    yield from batch_curve.batch_signals(trace)
    if rate_sweep.read_rates(trace) is not None:
        yield Signal.RATES
