"""A recording's folder: whether it is one, whether its run is in progress, its small files, its largest size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError

RECORDING_FILE = "recording.sqlite"
LAUNCH_FILE = "launch.json"
ENDED_FILE = "ended.txt"
FAILED_FILE = "failed.txt"
RUNS_FOLDER = "slowtrain-runs"  # default folder of recordings
SCRATCH_FOLDER = "scratch"  # in the folder of a probe: files that the script itself writes, which are not recorded
UNIT_BYTES = {"": 1, "b": 1}
SIZE_PATTERN = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)


def is_recording(path: Path) -> bool:
    return (path / RECORDING_FILE).is_file()


def require_recording(*folders: Path) -> None:
    """Raise ``InputError`` for the first folder that holds no recording."""
    for folder in folders:
        if not is_recording(folder):
            raise InputError(_absent_message(folder))


def require_begun_recording(folder: Path) -> None:
    """Same, but accept a run that has just started and has not created its recording yet."""
    if "end_ns" in (launch := read_launch(folder)) or not launch:
        require_recording(folder)


def _absent_message(folder: Path) -> str:
    failed = _first_line(folder / FAILED_FILE)
    if failed:
        return f"the recorder could not start in that process ({failed})"
    return f"{folder} is not a recording: it has no {RECORDING_FILE}; make one with `slowtrain run SCRIPT`"


def read_launch(folder: Path) -> Mapping[str, Any]:
    """Return what ``slowtrain run`` noted about the run; empty if it cannot be read."""
    try:
        found = json.loads((folder / LAUNCH_FILE).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_running(folder: Path) -> bool:
    """Return whether a folder holds a recording without a noted end. Its run may also have been killed."""
    return is_recording(folder) and "end_ns" not in read_launch(folder)


def early_end_reason(folder: Path) -> str:
    """Return why recording ended before the script did; empty if it did not."""
    reason, file = _first_line(folder / ENDED_FILE), folder / ENDED_FILE
    # A full disk can store a file's name, but no content.
    return reason or ("its disk is full" if file.is_file() else "")


def _first_line(path: Path) -> str:
    """Return the first line of a file; empty if it does not exist."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip()
    except OSError:
        return ""


UNIT_BYTES |= {f"{letter}{end}": 1000 ** (i + 1) for i, letter in enumerate("kmgt") for end in ("", "b")}
UNIT_BYTES |= {f"{letter}ib": 1024 ** (i + 1) for i, letter in enumerate("kmgt")}


def parse_size(option: str, text: str, least: int = 0) -> int:
    """Returns the size in bytes. Raises ``InputError`` if ``text`` is no size, or is below ``least``."""
    found = SIZE_PATTERN.fullmatch(text.strip().lower())
    unit = UNIT_BYTES.get(found[2]) if found else None
    if found is None or unit is None:
        raise InputError(f"{option} {text!r} is not a size; write it as 200MB or 1.5GB")
    size = int(float(found[1]) * unit)
    if size < least:
        raise InputError(f"{option} {text} is too small for a recording; give {least / 1e6:.0f}MB or more")
    return size
