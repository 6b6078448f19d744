"""``slowtrain runs``: lists the recordings in a folder, newest first."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.number_text import format_number

HELP = "list the recordings in a folder, newest first"
EXAMPLES = """
slowtrain runs                   the recordings in slowtrain-runs
slowtrain runs --out /data/runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path("slowtrain-runs"),
        help="folder of the recordings (default: %(default)s)",
    )


def main(args: argparse.Namespace) -> int:
    from slowtrain.recording import recording_folder

    if not args.out.is_dir():
        raise InputError(f"{args.out} does not exist; `slowtrain run SCRIPT` creates it with the first recording")
    folders = [f for f in args.out.iterdir() if recording_folder.is_recording(f)]
    for folder in sorted(folders, key=lambda f: f.stat().st_mtime, reverse=True):
        print(f"{folder}  {_recording_summary(folder)}")
    if not folders:
        print(f"no recordings in {args.out}; `slowtrain run SCRIPT` creates one")
    return 0


def _recording_summary(folder: Path) -> str:
    """Verdict, step time and first cause from the stored answer, or a note that there is none."""
    try:
        found = json.loads((folder / "checkup.json").read_text(encoding="utf-8"))
        step = found["steps"]["median_ms"]
        first = next((d["cause"] for d in found["diagnoses"]), "")
        speed = f"{format_number(step)} ms a step" if step else "no steady steps"
        return ", ".join(filter(None, [str(found["verdict"]), speed, first]))
    except (OSError, ValueError, KeyError, TypeError):
        return "no answer stored; run `slowtrain report`"
