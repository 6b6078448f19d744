"""What ``slowtrain lint`` takes for a package's files, beside parsing them and beside ruff; processes in turns.

    python clinic/lint_bench.py [--markdown docs/bench-lint.md] [--times 5] [PACKAGE]

``ast.parse`` alone and ``slowtrain lint`` on one core, then on all; a process each, so that start-up counts. What
is compared is the processor's time, which depends less on what else the computer does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pages import fill

MOST = 1.5  # times what parsing alone takes, on one core
PARSE = """
import ast, pathlib, sys, warnings
warnings.simplefilter("ignore")
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    ast.parse(file.read_bytes())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--times", type=int, default=5, help="processes of each")
    parser.add_argument("package", nargs="?", default="keras")
    args = parser.parse_args()
    folder = _folder(args.package)
    files = sorted(folder.rglob("*.py"))
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    lint = [sys.executable, "-m", "slowtrain", "lint", "--output", os.devnull, str(folder)]
    commands = {
        "`ast.parse` alone, one core": [sys.executable, "-c", PARSE, str(folder)],
        "`slowtrain lint`, one core": [*lint[:-1], "--processes", "1", lint[-1]],
        f"`slowtrain lint`, {_cores()} cores": lint,
    }
    ruff = shutil.which("ruff", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if ruff:
        commands["`ruff check` without its cache"] = [ruff, "check", "--isolated", "--no-cache", "--quiet", str(folder)]
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(args.times + 1):  # the first round fills the disk cache and the .pyc files
        for name, command in commands.items():
            taken[name].append(_run(command))
    walls, works = ([statistics.median(run[n] for run in runs[1:]) for runs in taken.values()] for n in (0, 1))
    parse, one = works[:2]
    rows = [
        f"| {name} | {wall:.2f} | {work:.2f} | {work / parse:.2f} |"
        for name, wall, work in zip(commands, walls, works, strict=True)
    ]
    what = f"{len(files)} files of `{args.package}`, {lines:,} lines"
    text = "\n".join(
        [
            f"{what}; median of {args.times} processes each, in turns.",
            "",
            "| | s | s of processor | times parsing, by processor |",
            "|---|---|---|---|",
            *rows,
        ]
    )
    print(text)
    if args.markdown:
        fill(args.markdown, f"Made by `python clinic/lint_bench.py --times {args.times}`.\n\n{text}\n")
    return 0 if one <= MOST * parse else 1


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds that passed, and seconds of the processor."""
    before, start = os.times(), time.perf_counter()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled files are kept, as usual
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4])  # of children


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed here")
    return Path(spec.submodule_search_locations[0])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
