"""Of how many labelled scripts `slowtrain lint` finds a cause that the label names, and what it finds in cured ones.

    python clinic/lint_recall.py clinic/unread        never run, and nothing was written beside them
    python clinic/lint_recall.py clinic/strangers     others: the rules were shaped while these were read

A label that names several causes is met by any of them. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import tomllib


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    done = subprocess.run(
        [sys.executable, "-m", "slowtrain", "lint", "--format", "json", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seen: dict[str, set[str]] = {}
    for one in json.loads(done.stdout)["findings"]:
        seen.setdefault(Path(one["file"]).name, set()).add(one["cause"])
    labels = tomllib.loads((folder / "labels.toml").read_text(encoding="utf-8"))
    slow = {name: set(row["causes"]) for name, row in labels.items() if row["causes"]}
    found = {name for name, causes in slow.items() if causes & seen.get(f"{name}.slow.py", set())}
    for name, causes in slow.items():
        if name not in found:
            print(f"not found: {name} ({', '.join(sorted(causes))})")
    others = {name: causes for name, causes in seen.items() if not name.endswith(".slow.py")}
    for name, causes in sorted(others.items()):
        print(f"in a cured or healthy form: {name} ({', '.join(sorted(causes))})")
    print(f"found: {len(found)} of {len(slow)}; cured or healthy forms with a finding: {len(others)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
