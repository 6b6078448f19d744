"""How long each verb that needs no TensorFlow takes to answer, beside Python alone; processes in turns.

    python clinic/startup.py [--markdown docs/startup.md] [--times 7] [RECORDING [LONG_RECORDING]]

A process each, from start to end, and to the first of what it prints, which holds the answer: ``report`` writes its
page behind that. Without a recording one is made of a script of the clinic; those that are given are
copied first, as ``report`` writes into them. What is compared is the processor's time, which depends less on what else
the computer does; the wall's stands beside it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pages import fill

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
PROFILE = TESTS / "trace/recorded/tf-host-graph.xplane.pb.gz"
FACTS = TESTS / "machine/fixtures/healthy_t4.json"
LOG = TESTS / "dumps/data/tf221-mlp.log.gz"
SCRIPT = HERE / "cases/input/sequential-map/flowers_decode/script.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--times", type=int, default=7, help="processes of each")
    parser.add_argument("recording", type=Path, nargs="?", help=f"default: made of {SCRIPT.name}")
    parser.add_argument("long", type=Path, nargs="?", help="a recording of a long run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        short = _copied(args.recording, folder / "runs") if args.recording else _made(folder / "runs")
        long = args.long and _copied(args.long, folder / "long")
        taken = _taken(_commands(short, long, folder), args.times)
    given = " RECORDING LONG_RECORDING" if args.long else " RECORDING" if args.recording else ""
    made = f"Made by `python clinic/startup.py --times {args.times}{given}`; medians of processes in turns."
    text = f"{made}\n\n{_table(taken)}"
    print(text)
    if args.markdown:
        fill(args.markdown, text)
    return 0


def _copied(recording: Path, folder: Path) -> Path:
    return Path(shutil.copytree(recording, folder / recording.name))


def _made(folder: Path) -> Path:
    """A recording of ten seconds."""
    subprocess.run([sys.executable, "-m", "slowtrain", "run", "--out", str(folder), str(SCRIPT)], check=True)
    return next(folder.iterdir())


def _commands(short: Path, long: Path | None, folder: Path) -> dict[str, list[str]]:
    """What the table says -> the command line."""
    python, verb = [sys.executable], [sys.executable, "-m", "slowtrain"]
    missing = str(folder / "missing")
    commands = {
        "`python -c pass`": [*python, "-c", "pass"],
        "`python -c 'import numpy'`": [*python, "-c", "import numpy"],
        "the same without its threads": ["env", "OPENBLAS_NUM_THREADS=1", *python, "-c", "import numpy"],
        "`--help`": [*verb, "--help"],
        "`explain`": [*verb, "explain"],
        "`explain input/sequential-map`": [*verb, "explain", "input/sequential-map"],
        "`explain` of no cause": [*verb, "explain", "unheard-of"],
        "`runs`": [*verb, "runs", "--out", str(short.parent)],
        "`lint` of one file": [*verb, "lint", str(SCRIPT)],
        "`lint` of a missing file": [*verb, "lint", missing],
        "`oom` of a log": [*verb, "oom", str(LOG)],
        "`oom` of a missing log": [*verb, "oom", missing],
        "`doctor --from` facts": [*verb, "doctor", "--from", str(FACTS)],
        "`doctor --from` a missing file": [*verb, "doctor", "--from", missing],
        "`watch --once` of a run that is over": [*verb, "watch", "--once", str(short)],
        "`watch` of a missing run": [*verb, "watch", missing],
        "`cut`": [*verb, "cut", str(PROFILE), "--from-ms", "0", "--out", str(folder / "cut.xplane.pb")],
        "`cut` of a missing profile": [*verb, "cut", missing, "--from-ms", "0", "--out", str(folder / "cut")],
        "`diagnose` of a small profile": [*verb, "diagnose", str(PROFILE)],
        "`diagnose` of a missing profile": [*verb, "diagnose", missing],
        "`compare`": [*verb, "compare", str(short), str(short)],
        "`compare` of a missing recording": [*verb, "compare", missing, str(short)],
        "`report`": [*verb, "report", str(short)],
        "`report` of a missing recording": [*verb, "report", missing],
        "`run` of a missing script": [*verb, "run", missing],
    }
    if long is not None:
        commands["`watch --once` of a long run that is over"] = [*verb, "watch", "--once", str(long)]
        commands["`report` of a long run"] = [*verb, "report", str(long)]
    return commands


def _taken(commands: dict[str, list[str]], times: int) -> dict[str, tuple[float, ...]]:
    """Medians of milliseconds to the answer, to the end, and of the processor."""
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in commands}
    for _ in range(times + 1):  # the first round fills the disk cache and the .pyc files
        for name, command in commands.items():
            taken[name].append(_run(command))
    return {name: tuple(map(statistics.median, zip(*runs[1:], strict=True))) for name, runs in taken.items()}


def _run(command: list[str]) -> tuple[float, float, float]:
    """Milliseconds until it printed something, until it ended, and of the processor."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled files are kept, as usual
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as process:
        assert process.stdout is not None
        said = os.read(process.stdout.fileno(), 1)
        answer = time.perf_counter() - start
        said += process.stdout.read()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{command[1:]} ended with {process.returncode}: {said.decode()[-500:]}")
    work = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return answer * 1e3, wall * 1e3, work * 1e3


def _table(taken: dict[str, tuple[float, ...]]) -> str:
    floor = taken["`python -c pass`"][2]
    rows = [
        f"| {name} | {answer:.0f} | {wall:.0f} | {work:.0f} | {work / floor:.1f} |"
        for name, (answer, wall, work) in taken.items()
    ]
    return "\n".join(
        [
            "| | to the answer, ms | to the end, ms | of processor, ms | times `python -c pass`, by processor |",
            "| --- | ---: | ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
