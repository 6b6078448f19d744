"""How many findings of `slowtrain lint` on labelled files are true, and how many of the labelled places it finds.

    python clinic/lint_precision.py clinic/public_first

`labels.toml` names for each file what is wrong where: cause = lines (of a notebook "cell:line"). Healthy files have a
table without a row. A finding is true where a label of its cause stands within two lines. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
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
    wanted = {(name, cause, str(at)) for name, causes in labels.items() for cause, lines in causes.items() for at in lines}
    found = {(str(Path(one["file"]).relative_to(folder)), one["cause"], _place(one)) for one in _findings(folder)}
    false = {one for one in found if not any(_meets(one, label) for label in wanted)}
    missed = {label for label in wanted if not any(_meets(one, label) for one in found)}
    for name, cause, place in sorted(false):
        print(f"false: {name}:{place} {cause}")
    for name, cause, place in sorted(missed):
        print(f"missed: {name}:{place} {cause}")
    print(f"{len(labels)} files; true: {len(found) - len(false)} of {len(found)} findings; "
          f"found: {len(wanted) - len(missed)} of {len(wanted)} labelled places")  # fmt: skip
    return 0


def _findings(folder: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "slowtrain", "lint", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return list(json.loads(done.stdout)["findings"])


def _place(one: dict[str, object]) -> str:
    return f"{one['cell']}:{one['line']}" if one.get("cell") else str(one["line"])


def _meets(one: tuple[str, str, str], label: tuple[str, str, str]) -> bool:
    cell, _, line = one[2].rpartition(":")
    at_cell, _, at = label[2].rpartition(":")
    return one[:2] == label[:2] and cell == at_cell and abs(int(line) - int(at)) <= NEAR


if __name__ == "__main__":
    sys.exit(main())
