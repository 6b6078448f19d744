"""What beside a recording's own file is damaged or gone: its windows' profiles and ``launch.json``.

A recording is read without them, and says so: what they would have told is not known, which is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.files.recordings import LAUNCH, launched
from slowtrain.trace import Event, xplane
from slowtrain.trace.wire import File


def noted(folder: Path, events: Iterable[Event], facts: Mapping[str, Any]) -> dict[str, Any]:
    """``facts`` with notes of what cannot be read; ``unread`` names the windows whose profile is among that."""
    unread = tuple(_profiles(folder, events))
    notes = [f"the profile of {one}: what ran inside its steps is not known" for one in unread]
    if (folder / LAUNCH).exists() and not launched(folder):
        notes.append(f"{LAUNCH} cannot be read: how the run was started, and how it ended, is not known")
    if not notes:
        return dict(facts)
    return {**facts, "unread": unread, "notes": [*facts.get("notes", ()), *notes]}


def windows(folder: Path, events: Iterable[Event]) -> Iterator[tuple[Event, Path, Path | None]]:
    """Each deep window with its folder and its profile; None where that is gone."""
    for event in events:
        if event.lane == "window" and event.name == "profile" and "begun_ns" in event.data:
            # Only the name: a recording is read from where it lies, whatever it says of itself.
            own = folder / Path(str(event.data.get("folder", "?"))).name
            yield event, own, min(own.glob("**/*.xplane.pb"), default=None)


def _profiles(folder: Path, events: Iterable[Event]) -> Iterator[str]:
    """Of each deep window whose profile cannot be read: its folder's name and what is wrong."""
    for _, own, file in windows(folder, events):
        wrong = _wrong(file) if file is not None else "is gone"
        if wrong:
            yield f"{own.name} {wrong}"


def _wrong(path: Path) -> str:
    """By the fields of the outermost message alone: of a file that was cut off one reaches beyond its end."""
    try:
        if not path.stat().st_size:
            return "is empty"
        data = xplane.contents(path)
        for _ in File(data, path.name).fields(0, len(data)):
            pass
    except (InputError, IndexError, OSError):
        return "is damaged"
    return ""
