"""A recording's folder: whether it is one, whether its run goes on, what its small files say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError

FILE = "recording.sqlite"
LAUNCH = "launch.json"
ENDED = "ended.txt"
FAILED = "failed.txt"


def is_recording(path: Path) -> bool:
    return (path / FILE).is_file()


def require(*folders: Path) -> None:
    """Raises ``InputError`` for the first that holds no recording."""
    for folder in folders:
        if not is_recording(folder):
            raise InputError(_absent(folder))


def require_begun(folder: Path) -> None:
    """The same, but of a run that was only just started its recording may yet be made."""
    if "end_ns" in (launch := launched(folder)) or not launch:
        require(folder)


def _absent(folder: Path) -> str:
    failed = _first_line(folder / FAILED)
    if failed:
        return f"the recorder could not start in that process ({failed})"
    return f"{folder} is not a recording: it has no {FILE}; make one with `slowtrain run SCRIPT`"


def launched(folder: Path) -> Mapping[str, Any]:
    """What ``slowtrain run`` noted of the run it started; empty where there is nothing to read."""
    try:
        found = json.loads((folder / LAUNCH).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def goes_on(folder: Path) -> bool:
    """Whether a folder holds a recording of a run that has not noted its end: it may have been killed, too."""
    return is_recording(folder) and "end_ns" not in launched(folder)


def ended(folder: Path) -> str:
    """Why recording ended before the script did; empty where it did not."""
    said, file = _first_line(folder / ENDED), folder / ENDED
    return said or ("its disk is full" if file.is_file() else "")  # which took the name of a file and not one line more


def _first_line(path: Path) -> str:
    """Of a file that says what went wrong; empty where there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip()
    except OSError:
        return ""
