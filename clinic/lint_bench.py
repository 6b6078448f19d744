"""What ``slowtrain lint`` takes for a package's files, beside parsing them and beside ruff; processes in turns.

    python clinic/lint_bench.py [--markdown docs/bench-lint.md] [PACKAGE]

``ast.parse`` alone and ``slowtrain lint`` on one core, then on all; a process each, so that start-up counts.
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

TIMES = 5
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
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TIMES + 1):  # the first round fills the disk cache and the .pyc files
        for name, command in commands.items():
            seconds[name].append(_run(command))
    medians = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
    parse, one = list(medians.values())[:2]
    rows = [f"| {name} | {taken:.2f} | {taken / parse:.2f} |" for name, taken in medians.items()]
    text = "\n".join(
        [
            f"{len(files)} files of `{args.package}`, {lines:,} lines; median of {TIMES} processes each, in turns.",
            "",
            "| | s | times parsing |",
            "|---|---|---|",
            *rows,
        ]
    )
    print(text)
    if args.markdown:
        fill(args.markdown, f"Made by `python clinic/lint_bench.py`.\n\n{text}\n")
    return 0 if one <= MOST * parse else 1


def _run(command: list[str]) -> float:
    start = time.perf_counter()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled files are kept, as usual
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return time.perf_counter() - start


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed here")
    return Path(spec.submodule_search_locations[0])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
