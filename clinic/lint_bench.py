"""What ``slowtrain lint`` takes, beside parsing the same files and beside ruff; processes in turns.

    python clinic/lint_bench.py [--markdown docs/bench-lint.md] [--times 5]

For the files of the package Keras, which are a library, and for the training scripts of ``clinic/cases``:
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
from dataclasses import dataclass
from pathlib import Path

from pages import fill

PARSE = """
import ast, pathlib, sys, warnings
warnings.simplefilter("ignore")
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    ast.parse(file.read_bytes())
"""


@dataclass(frozen=True)
class FileSet:
    """Python files below a folder. ``max_ratio``: the goal, times what parsing alone takes, on one core."""

    title: str
    folder: Path
    max_ratio: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--times", type=int, default=5, help="processes of each")
    args = parser.parse_args()
    sets = [
        FileSet("A library: `keras`", _package_folder("keras"), 1.5),
        FileSet("Training scripts: `clinic/cases`", Path(__file__).parent / "cases", 8.0),
    ]
    tables, reached = [], True
    for one in sets:
        table, ratio = _measure_set(one, args.times)
        print(table, "\n")
        tables.append(table)
        reached = reached and ratio <= one.max_ratio
    if args.markdown:
        head = f"Made by `python clinic/lint_bench.py --times {args.times}`."
        fill(args.markdown, "\n\n".join([head, *tables]) + "\n")
    return 0 if reached else 1


def _measure_set(files: FileSet, times: int) -> tuple[str, float]:
    """The table of a set, and what lint takes on one core in terms of parsing."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in _commands(files.folder)}
    for _ in range(times + 1):  # the first round fills the disk cache and the .pyc files
        for name, command in _commands(files.folder).items():
            taken[name].append(_run(command))
    walls, works = ([statistics.median(run[n] for run in runs[1:]) for runs in taken.values()] for n in (0, 1))
    parse, lint = works[:2]
    several = sorted(files.folder.rglob("*.py"))
    lines = sum(file.read_bytes().count(b"\n") for file in several)
    rows = [
        f"| {name} | {wall:.2f} | {work:.2f} | {work / parse:.2f} |"
        for name, wall, work in zip(taken, walls, works, strict=True)
    ]
    head = f"{len(several)} files, {lines:,} lines; median of {times} processes each, in turns."
    columns = ["| | s | s of processor | times parsing, by processor |", "|---|---|---|---|"]
    return "\n".join([f"### {files.title}", "", head, "", *columns, *rows]), lint / parse


def _commands(folder: Path) -> dict[str, list[str]]:
    lint = [sys.executable, "-m", "slowtrain", "lint", "--output", os.devnull]
    commands = {
        "`ast.parse` alone, one core": [sys.executable, "-c", PARSE, str(folder)],
        "`slowtrain lint`, one core": [*lint, "--processes", "1", str(folder)],
        f"`slowtrain lint`, {_cores()} cores": [*lint, str(folder)],
    }
    ruff = shutil.which("ruff", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if ruff:
        commands["`ruff check` without its cache"] = [ruff, "check", "--isolated", "--no-cache", "--quiet", str(folder)]
    return commands


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds that passed, and seconds of the processor."""
    before, start = os.times(), time.perf_counter()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled files are kept, as usual
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4])  # of children


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed here")
    return Path(spec.submodule_search_locations[0])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
