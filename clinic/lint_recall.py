"""Of how many labelled scripts `slowtrain lint` finds a cause that the label names, and what it finds in cured ones.

    python clinic/lint_recall.py                      the sets that strangers wrote
    python clinic/lint_recall.py --set strangers-24   one of them

A label that names several causes is met by any of them. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import case_files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="strangers", help="of the sets that README.md lists")
    parser.add_argument("--platform", default=case_files.CPU, choices=(case_files.CPU, case_files.GPU))
    args = parser.parse_args()
    cases = case_files.list_cases(set_name=args.set, platform=args.platform)
    with tempfile.TemporaryDirectory(prefix="slowtrain-lint-") as folder:
        seen = causes_by_file(cases, Path(folder))
    slow = {case.name: set(case.causes) for case in cases if case.causes}
    found = {name for name, causes in slow.items() if causes & seen.get(f"{name}.slow.py", set())}
    for name, causes in slow.items():
        if name not in found:
            print(f"not found: {name} ({', '.join(sorted(causes))})")
    others = {name: causes for name, causes in seen.items() if not name.endswith(".slow.py")}
    for name, causes in sorted(others.items()):
        print(f"in a cured or healthy form: {name} ({', '.join(sorted(causes))})")
    print(f"found: {len(found)} of {len(slow)}; cured or healthy forms with a finding: {len(others)}")
    return 0


def causes_by_file(cases: list[case_files.Case], folder: Path) -> dict[str, set[str]]:
    """The causes that lint finds, by file: NAME.slow.py, NAME.fixed.py, and NAME.py of a healthy script."""
    for case in cases:
        is_pair = case.write_cured_script(folder) is not None
        (folder / f"{case.name}{'.slow' if is_pair else ''}.py").write_text(case.script_text(), encoding="utf-8")
    command = [sys.executable, "-m", "slowtrain", "lint", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seen: dict[str, set[str]] = {}
    for one in json.loads(done.stdout)["findings"]:
        seen.setdefault(Path(one["file"]).name, set()).add(one["cause"])
    return seen


if __name__ == "__main__":
    sys.exit(main())
