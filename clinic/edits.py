"""Of which slow scripts the first finding has an edit that applies to its text.

    python clinic/run.py --keep FOLDER      records the scripts of this checkout
    python clinic/edits.py FOLDER           reads these recordings

Nothing is run or measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from run import Script, scripts

from slowtrain import diagnose
from slowtrain.errors import InputError
from slowtrain.model import Effect
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement.edited_files import EditedFiles


def effects(folder: Path) -> tuple[str, set[Effect]] | None:
    """The first finding of a recording, and the effects of its edits that apply; None where nothing is found."""
    trace = recording_trace.load_recording(folder)
    found = diagnose.diagnose_trace(trace).diagnoses
    if not found:
        return None
    applied = set()
    for one in found[0].prescriptions:
        try:
            if one.edits and EditedFiles().with_edits(one.edits, trace.root).changed():
                applied.add(one.effect)
        except InputError:
            continue
    return found[0].cause, applied


def recorded(script: Script, folder: Path) -> Iterator[Path]:
    for launch in sorted((folder / script.name).glob("*/launch.json")):
        yield launch.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    args = parser.parse_args()
    every = safe = changing = 0
    for script in (s for s in scripts(args.only) if s.causes):
        for folder in list(recorded(script, args.folder))[-1:]:
            answer = effects(folder)
            cause, applied = answer if answer is not None else ("-", set())
            every += 1
            safe += bool(applied & {Effect.EXACT, Effect.EQUIVALENT})
            changing += applied == {Effect.CHANGES_TRAINING}
            print(f"{script.name:<22}{cause:<34}{', '.join(sorted(map(str, applied))) or 'words'}", flush=True)
    print(f"\nslow scripts recorded: {every}; first finding with an exact or equivalent edit: {safe}, "
          f"with one that changes training only: {changing}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
