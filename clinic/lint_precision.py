"""How many findings of `slowtrain lint` on labelled files are true, and how many of the labelled places it finds.

    python clinic/lint_precision.py clinic/public_first

`labels.toml` names for each file what is wrong where: cause = lines (of a notebook "cell:line"). Healthy files have a
table without a row. A finding is true where a label of its cause stands within two lines. ``cause~a`` in several
places of a folder is one label, which any of them meets. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import tomllib

NEAR = 2  # lines: a decorator, or the call's name on the next line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    labels = tomllib.loads((folder / "labels.toml").read_text(encoding="utf-8"))
    rows = [(name, *row) for name, causes in labels.items() for row in causes.items()]
    wanted = {(name, cause, str(at)) for name, cause, lines in rows for at in lines}
    found = {(str(Path(one["file"]).relative_to(folder)), one["cause"], _place(one)) for one in _findings(folder)}
    false = {one for one in found if not any(_meets(one, label) for label in wanted)}
    met = {label for label in wanted if any(_meets(one, label) for one in found)}
    groups = {_group(label) for label in wanted}
    missed = {label for label in wanted if _group(label) not in {_group(one) for one in met}}
    for name, cause, place in sorted(false):
        print(f"false: {name}:{place} {cause}")
    for name, cause, place in sorted(missed):
        print(f"missed: {name}:{place} {cause}")
    print(f"{len(labels)} files; true: {len(found) - len(false)} of {len(found)} findings; "
          f"found: {len({_group(one) for one in met})} of {len(groups)} labelled causes")  # fmt: skip
    return 0


def _group(label: tuple[str, str, str]) -> tuple[str, ...]:
    """``cause~a`` stands at several places of a project, of which any is right."""
    return (os.path.dirname(label[0]), label[1]) if "~" in label[1] else label


def _findings(folder: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "slowtrain", "lint", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return list(json.loads(done.stdout)["findings"])


def _place(one: dict[str, object]) -> str:
    return f"{one['cell']}:{one['line']}" if one.get("cell") else str(one["line"])


def _meets(one: tuple[str, str, str], label: tuple[str, str, str]) -> bool:
    cell, _, line = one[2].rpartition(":")
    at_cell, _, at = label[2].rpartition(":")
    return one[:2] == (label[0], label[1].partition("~")[0]) and cell == at_cell and abs(int(line) - int(at)) <= NEAR


if __name__ == "__main__":
    sys.exit(main())
