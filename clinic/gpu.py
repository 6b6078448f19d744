"""TensorFlow on this machine's card: everything that needs one, the most important first.

    python clinic/gpu.py --budget 12m --markdown docs/gpu.md        on a machine with a card: make gpu
    python clinic/gpu.py --constants --budget 4m                    the link, cures, command buffers, neighbours
    python clinic/gpu.py --small --only pair:sensor_dense           tries the same on a CPU, at small sizes
    python clinic/gpu.py --recordings FOLDER --markdown docs/gpu.md  the table of the recordings alone; needs no card
    python clinic/gpu.py --budget 0 --markdown docs/gpu.md          the tables of what is known, nothing measured

In this order: ``doctor``; what is said of the scripts of the set gpu-tensorflow; the gain of its pairs; what recording
costs; the memory forecast against the largest batch that fits; the crossover. With ``--constants``, the measurements
from which the program takes its constants: the link, cures with their variants in turns, XLA's command buffers under
the profiler, neighbours on the card. Each result is appended to ``results.jsonl`` in the output folder as soon as it
is there. The next call goes on with what is missing, so a call can be cut at any moment. What no longer fits into the
budget is left for the next call. Nothing else may use the card meanwhile.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import case_files
import gpu_results
import gpu_truth
from gpu_scripts import Labelled, Machine, examine, labelled, time_pair
from pages import fill

HERE = Path(__file__).parent
BENCH = HERE / "gpu_bench"
CURES = (
    "wide_input", "small_dense", "loop_by_hand", "handwritten", "host_op", "on_batch", "tables", "precision",
    "recurrent",
)  # fmt: skip
BUFFERS = ("off", "on")
TRAININGS = ("loops", "small dense", "residual")
SHARED_WITH = ("nobody", "short", "long")
CURES_MOST_S = 180  # of one call, so that the other constants are reached, too
# Seconds that each kind of job takes on a fast card. The twelve recorded runs of such scripts took 16 to 74 s, half of
# them 24 s or less, of which 8 to 10 s are imports; these overlap with the job before. Nobody has measured the others.
SECONDS = {
    "doctor": 10, "pair": 15, "healthy": 15, "gain": 8, "overhead": 20, "memory": 50, "crossover": 45,
    "link": 15, "cures": 90, "buffers": 40, "sharing": 50,
}  # fmt: skip
OVERHEAD_PAIRS = 2  # each takes many turns; from six pairs on the table gives an interval, below that the range
MEMORY_MODELS = ("plain_cnn",)
LIMIT_MB, SMALL_LIMIT_MB = 40_960, 512
FITTING_TRIES = 9  # batches tried on the card for one model: the bracket, then halves of it down to 2 %
LEAST_LEFT_S = 5.0  # with less than that left nothing is begun


@dataclass(frozen=True)
class Job:
    """Work that yields the results ``items``; ``seconds`` is what it takes on a fast card, guessed."""

    items: tuple[str, ...]
    seconds: float
    run: Callable[[float], Iterator[dict[str, Any]]]  # is given the seconds that are left


class OutOfTimeError(Exception):
    """The budget ended a process: what it did not come to is left for the next call."""


def jobs(machine: Machine) -> list[Job]:
    """What ``make gpu`` does, the most important first. The seconds add up to less than twelve minutes."""
    found = [_job(("doctor",), functools.partial(doctor, machine))]
    for script in labelled():
        kind = "pair" if script.causes else "healthy"
        found.append(_job((f"{kind}:{script.name}",), functools.partial(judge, machine, script)))
    pairs = [script for script in labelled() if script.fixed is not None]
    found += [_job((f"gain:{s.name}",), functools.partial(time_both, machine, s)) for s in pairs]
    for number in range(OVERHEAD_PAIRS):
        for loop in ("loop", "fit"):
            item = f"overhead:{loop}:{number}"
            found.append(_job((item,), functools.partial(recording_cost, machine, item, loop, number)))
    found += [_job((f"memory:{m}",), functools.partial(memory, machine, m)) for m in MEMORY_MODELS]
    found.append(_job(("crossover:sensor_dense",), functools.partial(crossover, machine, "sensor_dense")))
    return found


def constant_jobs(machine: Machine) -> list[Job]:
    """The measurements from which the program takes its constants."""
    small = ["--small"] if machine.small else []
    found = [_job(("link",), functools.partial(bench, machine, ["link.py"]))]
    found.append(_job(tuple(f"cures:{name}" for name in CURES), functools.partial(cures, machine, small)))
    for setting in BUFFERS:
        items = tuple(f"buffers:{setting}:{training}" for training in TRAININGS)
        found.append(_job(items, functools.partial(buffers, machine, setting, small)))
    items = tuple(f"sharing:{kind}" for kind in SHARED_WITH)
    found.append(_job(items, functools.partial(bench, machine, ["profiling.py", "sharing", *small])))
    return found


def _job(items: tuple[str, ...], run: Callable[[float], Iterator[dict[str, Any]]]) -> Job:
    return Job(items, SECONDS[items[0].partition(":")[0]], run)


def bench(machine: Machine, command: list[str], left_s: float, **environment: str) -> Iterator[dict[str, Any]]:
    """The results that a script of ``gpu_bench`` prints, each as soon as it is printed."""
    log = machine.folder / f"{'-'.join(command[:2]).replace('.py', '')}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(BENCH / command[0]), *command[1:]],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**machine.environment, **environment},
        ) as process,
    ):
        assert process.stdout is not None
        timer = machine.kill_after(process, left_s)
        begun = time.monotonic()
        try:
            for line in process.stdout:
                if line.startswith("RESULT "):
                    yield json.loads(line.removeprefix("RESULT "))
        finally:
            timer.cancel()
            process.kill()
    if time.monotonic() - begun >= left_s:
        raise OutOfTimeError
    if process.returncode:
        said = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said[-1][:160]}")


def cures(machine: Machine, small: list[str], left_s: float) -> Iterator[dict[str, Any]]:
    """The scenarios that are missing, in one process, which takes seconds to import TensorFlow."""
    lines = gpu_results.read(machine.results)
    missing = [name for name in CURES if not gpu_results.is_done(f"cures:{name}", lines)]
    most_s = left_s if machine.small else min(left_s, CURES_MOST_S)
    yield from bench(machine, ["cures.py", *small, *missing], most_s)


def buffers(machine: Machine, setting: str, small: list[str], left_s: float) -> Iterator[dict[str, Any]]:
    flag = f"--xla_enable_command_buffers_during_profiling={'true' if setting == 'on' else 'false'}"
    flags = f"{machine.environment.get('XLA_FLAGS', '')} {flag}".strip()
    yield from bench(machine, ["profiling.py", "buffers", setting, *small], left_s, XLA_FLAGS=flags)


def doctor(machine: Machine, left_s: float) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "slowtrain", "doctor", "--json", "-"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=min(left_s, 60), env=machine.environment, check=False
    )
    found = json.loads(done.stdout)
    checks = [f"{c['name']}: {c['state']}" for c in found["checks"]]
    yield {"item": "doctor", "says": found["headline"], "checks": checks}


def judge(machine: Machine, script: Labelled, left_s: float) -> Iterator[dict[str, Any]]:
    """Records the script and judges the answer."""
    kind = "pair" if script.causes else "healthy"
    yield {"item": f"{kind}:{script.name}", **examine(machine, script, left_s)}


def time_both(machine: Machine, script: Labelled, _: float) -> Iterator[dict[str, Any]]:
    """The gain of a pair, without Slowtrain."""
    yield {"item": f"gain:{script.name}", **time_pair(machine, script)}


def recording_cost(machine: Machine, item: str, loop: str, number: int, left_s: float) -> Iterator[dict[str, Any]]:
    """One pair of processes in turns, one of them recorded without windows (see clinic/overhead.py)."""
    import overhead

    os.environ.update({k: v for k, v in machine.environment.items() if k.startswith(("TF_", "XLA_"))})
    seconds = 3.0 if machine.small else 5.0
    folder = machine.folder / "overhead"
    folder.mkdir(exist_ok=True)
    (folder / "steps.py").write_text(overhead.SCRIPT, encoding="utf-8")
    sample = overhead.steady(folder, loop, "steps", min(seconds, left_s), 0.5, number % 2, 256, None)
    yield {"item": item, "wall": sample.wall, "cpu": sample.cpu, "step_ms": sample.step_ms, "turns": sample.turns}


def memory(machine: Machine, model: str, left_s: float) -> Iterator[dict[str, Any]]:
    """The forecast for a limit, then the largest batch that really fits under it."""
    limit_mb = SMALL_LIMIT_MB if machine.small else LIMIT_MB
    answer = machine.folder / f"memory-{model}.json"
    budget_s = max(min(left_s / 2, 90.0), 30.0)
    command = [
        sys.executable, "-m", "slowtrain", "memory", "--device", f"{limit_mb}MiB", "--budget", f"{budget_s:.0f}s",
        "--out", str(machine.folder / "runs"), "--json", str(answer), str(BENCH / "fits.py"), model, "{batch}",
    ]  # fmt: skip
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=machine.environment, timeout=left_s, check=False)
    if not answer.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1][:160])
    foretold = json.loads(answer.read_text(encoding="utf-8"))["largest_batch"]
    until = begun + left_s - 15
    fits, fails = find_largest(lambda batch: machine.fits(model, batch, limit_mb), foretold, until)
    yield {"item": f"memory:{model}", "limit_mb": limit_mb, "foretold": foretold, "fits": fits, "fails": fails}


def find_largest(fits: Callable[[int], bool], start: int, until: float) -> tuple[int, int | None]:
    """The largest batch seen to fit (0: none) and the smallest seen not to, from ``start`` on, within some tries."""
    low, high, factor, batch = 0, None, 1.03, max(start, 1)
    for _ in range(FITTING_TRIES):
        if time.monotonic() > until or (high is not None and low and high - low <= max(0.02 * low, 1)):
            break
        if fits(batch):
            low = max(low, batch)
        else:
            high = batch if high is None else min(high, batch)
        if high is None:
            batch, factor = max(int(low * factor), low + 1), factor**2
        elif low == 0:
            batch, factor = max(int(high / factor), 1), factor**2
        else:
            batch = (low + high) // 2
    return low, high


def crossover(machine: Machine, name: str, left_s: float) -> Iterator[dict[str, Any]]:
    answer = machine.folder / f"crossover-{name}.json"
    devices = ["--devices", "cpu:threads=1,cpu:threads=2"] if machine.small else []
    command = [
        sys.executable, "-m", "slowtrain", "crossover", *devices, "--batches", "32,512,4096", "--rounds", "1",
        "--budget", f"{max(min(left_s - 10, 90), 30):.0f}s", "--out", str(machine.folder / "runs"),
        "--json", str(answer),
        str(case_files.find_case(name, case_files.GPU).script),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=machine.environment, timeout=left_s, check=False)
    if not answer.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1][:160])
    found = json.loads(answer.read_text(encoding="utf-8"))
    yield {"item": f"crossover:{name}", "says": found["says"], "notes": found["notes"]}


def work(machine: Machine, wanted: list[Job], until: float) -> None:
    """Does what is missing and still fits; appends and prints each result."""
    lines = gpu_results.read(machine.results)
    left_out = []
    missing = {item for job in wanted for item in job.items if not gpu_results.is_done(item, lines)}
    machine.waiting = [s for s in labelled() if missing & {f"pair:{s.name}", f"healthy:{s.name}"}]
    for job in wanted:
        if all(gpu_results.is_done(item, lines) for item in job.items):
            continue
        left_s = until - time.monotonic()
        if left_s < max(job.seconds if not machine.small else 0, LEAST_LEFT_S):
            left_out += job.items
            continue
        untouched = [item for item in job.items if not gpu_results.is_done(item, lines)]
        while untouched:  # behind an item that ended the process the others get another one
            before = len(untouched)
            try:
                for row in attempt(machine, job, untouched, until - time.monotonic()):
                    lines.append(row)
                    untouched = [item for item in untouched if item != row["item"]]
                    keep(machine, row)
            except (OutOfTimeError, subprocess.TimeoutExpired):
                print(f"{job.items[0]}: cut off by the budget", flush=True)
                break
            if len(untouched) == before:
                break
    if left_out:
        print(f"left for the next call ({len(left_out)}): {', '.join(left_out)}")


def keep(machine: Machine, row: dict[str, Any]) -> None:
    with machine.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(describe(row), flush=True)


def attempt(machine: Machine, job: Job, untouched: list[str], left_s: float) -> Iterator[dict[str, Any]]:
    """The job's results; where some are lacking, one with the error of the first of these."""
    begun, seen = time.monotonic(), set()
    about = {"card": machine.card, "small": machine.small}
    problem = "it gave no result"
    try:
        for row in job.run(left_s):
            seen.add(row["item"])
            yield {**about, **row, "s": round(time.monotonic() - begun, 1)}
    except (OutOfTimeError, subprocess.TimeoutExpired):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  the other jobs have nothing to do with it
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    for item in [item for item in untouched if item not in seen][:1]:
        yield {**about, "item": item, "error": problem, "s": round(time.monotonic() - begun, 1)}


def describe(row: dict[str, Any]) -> str:
    """A line for the terminal."""
    hidden = {"item", "card", "small", "s", "variants", "by_MB", "checks", "division", "parts_ms", "processes"}
    said = [f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items() if k not in hidden]
    for name, one in row.get("variants", {}).items():
        said.append(f"{name}: {one.get('median_ms', one.get('error'))}")
    for size, one in row.get("by_MB", {}).items():
        said.append(f"{size} MB: {one['pageable']['GB_s'] or 0:.3g}/{one['pinned']['GB_s'] or 0:.3g} GB/s")
    return f"{row['item']:<26} {row['s']:>5.0f} s  {'  '.join(said)}"


def write_pages(page: Path, results: Path, recordings: Path | None) -> None:
    """The tables of what is known; that of the recordings only where they were asked for."""
    tables = gpu_results.pages(gpu_results.read(results))
    if recordings is not None:
        tables = {"gpu-recordings": gpu_truth.table(recordings)}
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for marker, table in tables.items():
        begin = f"<!-- {marker} -->"
        if begin in text:
            fill(page, table, begin)
        else:
            print(f"{page} has no {begin}; the table:\n{table}")


def seconds_of(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is no time; write 90s, 12m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=seconds_of, default=720.0, metavar="TIME", help="90s, 12m; default: 12m")
    parser.add_argument("--only", nargs="*", default=[], help="parts of items' names, such as pair: or cures:wide")
    parser.add_argument("--constants", action="store_true", help="the measurements behind the program's constants")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU; such results are in no table")
    parser.add_argument("--out", type=Path, help="default: build/gpu, with --small build/gpu-small")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="only the table of these recordings")
    parser.add_argument("--markdown", type=Path, help="put the tables into that page")
    parser.add_argument("--list", action="store_true", help="print what there is to do, and what is missing")
    args = parser.parse_args()
    folder = args.out or HERE.parent / "build" / ("gpu-small" if args.small else "gpu")
    if args.recordings is not None:
        if args.markdown:
            write_pages(args.markdown, folder / "results.jsonl", args.recordings)
        else:
            print(gpu_truth.table(args.recordings))
        return 0
    until = time.monotonic() + args.budget
    with Machine(folder.resolve(), args.small, look=args.budget > 0 and not args.list) as machine:
        known = constant_jobs(machine) if args.constants else jobs(machine)
        wanted = [j for j in known if not args.only or any(o in i for o in args.only for i in j.items)]
        if args.list:
            lines = gpu_results.read(machine.results)
            for item in (item for job in wanted for item in job.items):
                print(f"{'done   ' if gpu_results.is_done(item, lines) else 'missing'} {item}")
            return 0
        if args.budget and not machine.card and not args.small:
            print("no GPU is to be had here: TensorFlow sees none; --small tries all on the CPU", file=sys.stderr)
            return 3
        work(machine, wanted, until)
    if args.markdown:
        write_pages(args.markdown, folder / "results.jsonl", None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
