"""How long a large profile takes: Slowtrain's answer and xprof's overview page of one file, in turn, a process each.

    python clinic/trace_bench.py                                250 MB, three runs of each
    python clinic/trace_bench.py --also 2000                    and three of Slowtrain alone on a file of 2 GB
    python clinic/trace_bench.py --megabytes 2000 --no-xprof    Slowtrain only

The file is made by recording a small Keras fit with TensorFlow's own profiler and repeating its events until the size
is reached (clinic/repeated.py), and is kept in build/bench-trace. xprof gets an environment of its own in
build/venv-xprof; where it cannot be installed, the table says so. Wall time is from start to end of the process, peak
memory what the kernel counted (ru_maxrss). The file is in the page cache, and Python's modules are compiled, for both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from pages import fill
from repeated import repeat

BUILD = Path(__file__).parents[1] / "build"
XPROF_VENV = BUILD / "venv-xprof"
SMALL = BUILD / "bench-trace" / "recorded.xplane.pb"

# What is measured, each with the profile's path as the last argument.
SLOWTRAIN = [sys.executable, "-m", "slowtrain", "diagnose"]
OVERVIEW = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {"use_saved_result": False})
assert data, "xprof gave no overview page"
"""

RECORDED = """
import sys
import keras, numpy as np, tensorflow as tf
x = np.random.rand(4096, 64).astype("float32"); y = np.random.rand(4096, 1).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).map(lambda a, b: (a * 2, b), num_parallel_calls=2).batch(64).prefetch(2)
model = keras.Sequential([keras.Input((64,))] + [keras.layers.Dense(64, activation="relu") for _ in range(8)] + [keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(ds, epochs=1, verbose=0)
tf.profiler.experimental.start(sys.argv[1])
model.fit(ds, epochs=1, verbose=0)
tf.profiler.experimental.stop()
"""  # noqa: E501  a script as people write them


@dataclass
class Tool:
    name: str
    command: list[str]
    wall_s: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    failed: str = ""


def profile_of(megabytes: float) -> Path:
    """The large profile, in a folder of its own as TensorBoard wants it; made once."""
    folder = BUILD / "bench-trace" / f"{megabytes:g}MB" / "plugins" / "profile" / "repeated"
    target = folder / "host.xplane.pb"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    if not SMALL.exists():
        log = BUILD / "bench-trace" / "log"
        shutil.rmtree(log, ignore_errors=True)
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        subprocess.run([sys.executable, "-c", RECORDED, str(log)], check=True, env=quiet, stderr=subprocess.DEVNULL)
        next(log.rglob("*.xplane.pb")).replace(SMALL)
    part = target.with_suffix(".part")
    count = repeat(SMALL.read_bytes(), part, int(megabytes * 1e6))
    part.replace(target)
    (folder.parents[2] / "events.txt").write_text(str(count), encoding="utf-8")
    return target


def xprof() -> Tool | str:
    """xprof in its environment, or why it cannot be had."""
    python = XPROF_VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(XPROF_VENV)], check=True)
    version = [str(python), "-c", "from importlib.metadata import version; print(version('xprof'))"]
    found = subprocess.run(version, capture_output=True, text=True, check=False)
    if found.returncode:
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "xprof"]
        installed = subprocess.run(install, capture_output=True, text=True, check=False)
        if installed.returncode:
            return f"xprof could not be installed: {(installed.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        found = subprocess.run(version, capture_output=True, text=True, check=True)
    return Tool(f"xprof {found.stdout.strip()}, overview page", [str(python), "-c", OVERVIEW])


def once(tool: Tool, profile: Path) -> None:
    """One process. What it writes beside the profile (xprof: its caches) is removed, so that each run starts alike."""
    began = time.perf_counter()
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [*tool.command, str(profile)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=compiled
    )
    assert process.stderr is not None
    said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    took_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    for other in profile.parent.iterdir():
        if other != profile:
            other.unlink()
    if process.returncode:
        tool.failed = f"exit code {process.returncode}: {said[-1] if said else 'nothing said'}"
        return
    tool.wall_s.append(took_s)
    tool.peak_mb.append(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6)


def told(profile: Path) -> str:
    """How large the profile is; it is in the page cache afterwards."""
    with profile.open("rb") as stored:
        while stored.read(1 << 24):
            pass
    events = int((profile.parents[3] / "events.txt").read_text(encoding="utf-8"))
    return f"{profile.stat().st_size / 1e6:,.0f} MB, {events:,} events"


def measure(tools: list[Tool], profile: Path, runs: int) -> None:
    """Each in turn, the one that is first changing."""
    for turn in range(runs):
        for tool in tools if turn % 2 == 0 else reversed(tools):
            if not tool.failed:
                once(tool, profile)
                took = tool.failed or f"{tool.wall_s[-1]:.2f} s, {tool.peak_mb[-1]:,.0f} MB"
                print(f"{tool.name}: {took}", flush=True)


def row(tool: Tool, size: str) -> str:
    if tool.failed:
        return f"| {tool.name} | {size} | {tool.failed} | | |"
    wall, peak = statistics.median(tool.wall_s), max(tool.peak_mb)
    spread = f"{wall:.2f} ({min(tool.wall_s):.2f} to {max(tool.wall_s):.2f})"
    return f"| {tool.name} | {size} | {spread} | {peak:,.0f} | {len(tool.wall_s)} |"


def ratio(ours: Tool, theirs: Tool) -> str:
    if ours.failed or theirs.failed:
        return ""
    wall = statistics.median(theirs.wall_s) / statistics.median(ours.wall_s)
    return f"| xprof / Slowtrain | | {wall:.1f} times | {max(theirs.peak_mb) / max(ours.peak_mb):.1f} times | |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=250.0)
    parser.add_argument("--runs", type=int, default=3, help="of each, in turn")
    parser.add_argument("--also", type=float, metavar="MEGABYTES", help="measure Slowtrain alone on such a file, too")
    parser.add_argument("--no-xprof", action="store_true", help="measure Slowtrain only")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    profile = profile_of(args.megabytes)
    size = told(profile)
    ours, theirs = Tool("slowtrain diagnose", SLOWTRAIN), "not asked for" if args.no_xprof else xprof()
    tools = [ours] if isinstance(theirs, str) else [ours, theirs]
    once(Tool("compiles the modules", SLOWTRAIN), profile)
    measure(tools, profile, args.runs)
    rows = ["| what | profile | wall, s: median (range) | peak memory, MB | runs |", "|---|---|---|---|---|"]
    rows += [row(tool, size) for tool in tools]
    rows.append(f"| xprof | {size} | not measured: {theirs} | | |" if isinstance(theirs, str) else ratio(ours, theirs))
    if args.also:
        larger, alone = profile_of(args.also), Tool("slowtrain diagnose", SLOWTRAIN)
        size = told(larger)
        measure([alone], larger, args.runs)
        tools.append(alone)
        rows.append(row(alone, size))
    print("\n".join(filter(None, rows)))
    if args.markdown:
        asked = f"--megabytes {args.megabytes:g} --runs {args.runs}"
        asked += f" --also {args.also:g}" if args.also else ""
        asked += " --no-xprof" if args.no_xprof else ""
        made = f"Made by `python clinic/trace_bench.py {asked}` on {os.cpu_count()} cores."
        fill(args.markdown, "\n".join([made, "", *filter(None, rows)]) + "\n")
    return 1 if any(tool.failed for tool in tools) else 0


if __name__ == "__main__":
    sys.exit(main())
