"""Damaged or missing files of a recording besides its main file: profiles of windows, and ``launch.json``.

The recording is read without them, and a note says so. What they contain is then unknown, which is not a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slowtrain.columns.spans import Event
from slowtrain.errors import InputError
from slowtrain.profile.format import xplane
from slowtrain.profile.format.wire_format import ProtoFile
from slowtrain.recording.recording_folder import LAUNCH_FILE, read_launch


def with_damage_notes(folder: Path, events: Iterable[Event], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``facts`` with notes of unreadable files; ``unread`` names the windows whose profile is one of them."""
    unread = tuple(_unreadable_profiles(folder, events))
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


def _unreadable_profiles(folder: Path, events: Iterable[Event]) -> Iterator[str]:
    """Yield for each deep window with an unreadable profile its folder's name and what is wrong."""
    for _, own, file in deep_window_files(folder, events):
        wrong = _file_damage(file) if file is not None else "is missing"
        if wrong:
            yield f"{own.name} {wrong}"


def _file_damage(path: Path) -> str:
    """Return what is wrong with a profile, from the outermost fields only: in a truncated file one exceeds the end."""
    try:
        if not path.stat().st_size:
            return "is empty"
        data = xplane.profile_bytes(path)
        for _ in ProtoFile(data, path.name).fields(0, len(data)):
            pass
    except (InputError, IndexError, OSError):
        return "is damaged"
    return ""
