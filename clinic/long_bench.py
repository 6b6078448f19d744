"""A very long run through the real recorder, without TensorFlow: what it leaves on the disk, takes, and how it is read.

    python clinic/long_bench.py --steps 10000000 --markdown docs/bench-long.md

The steps are made up, and so is the clock: a step of ``fit`` with its function call, callbacks and stack samples
takes two milliseconds of that clock, with noise, and some are long. Everything from there on is what a recorded script
has: names, spans, events and machine samples go through the recorder, whose own thread is stood in for by calls at
the same moments of the made-up clock.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from slowtrain.capture.core import recorder as recording
from slowtrain.capture.core.recorder import Recorder

FLUSH_NS, SAMPLE_NS, STACK_NS = 500_000_000, 500_000_000, 100_000_000
THREAD = 7


class Clock:
    """Nanoseconds of the made-up clock."""

    def __init__(self) -> None:
        self.ns = time.perf_counter_ns()

    def __call__(self) -> int:
        return self.ns


class Run:
    """A made-up run of ``fit``. ``long`` in a thousand steps take thirty times as long; some save a checkpoint."""

    def __init__(self, recorder: Recorder, clock: Clock, step_ns: int, epoch: int, seed: int = 1) -> None:
        self.recorder, self.clock, self.step_ns, self.epoch = recorder, clock, step_ns, epoch
        self.random = random.Random(seed)
        self.step = recorder.name("step", "train")
        self.call = recorder.name("function", "train_function", site=("train.py", 30))
        self.hook = recorder.name("callback", "on_train_batch_end", hook="on_train_batch_end", site=("train.py", 9))
        self.save = recorder.name("callback", "on_epoch_end", hook="on_epoch_end", site=("train.py", 9))
        self.stack = recorder.name("stack", "sleep", site=("train.py", 31))
        self.begun = clock.ns
        self.done = 0
        self.spent: list[int] | None = None  # what each step took, where a test asks for it
        self._flush = self._sample = self._stack = clock.ns

    def go(self, steps: int) -> None:
        recorder, clock, emit, chance = self.recorder, self.clock, self.recorder.emit, self.random.random
        for i in range(self.done, self.done + steps):
            if i % self.epoch == 0:
                recorder.event("epoch", "begin", clock.ns, epoch=i // self.epoch)
            start = clock.ns
            took = int(self.step_ns * (0.75 + 0.5 * chance()))
            if chance() < 0.001:
                took *= 30
            end = start + int(0.9 * took)
            emit((self.call, start + took // 20, end - took // 20, THREAD, 1))
            emit((self.step, start, end, THREAD, 1))
            emit((self.hook, end, end + took // 50, THREAD, 0))
            clock.ns = start + took
            if self.spent is not None:
                self.spent.append(took)
            if (i + 1) % self.epoch == 0:
                recorder.event("epoch", "end", clock.ns, epoch=i // self.epoch, logs={"loss": 1.0})
                emit((self.save, clock.ns, clock.ns + 20 * self.step_ns, THREAD, 0))
                clock.ns += 20 * self.step_ns
            if clock.ns >= self._stack:
                self._tick()
        self.done += steps

    def _tick(self) -> None:
        """What the recorder's thread does from time to time."""
        at = self.clock.ns
        self._stack = at + STACK_NS
        self.recorder.emit((self.stack, at, at, THREAD, 4))
        if at >= self._sample:
            self._sample = at + SAMPLE_NS
            memory = 1e9 + 1e6 * self.random.random()
            self.recorder.sample({"rss_bytes": memory, "process_cpu_seconds": at / 1e9, "cpu_mean_share": 0.5})
        if at >= self._flush:
            self._flush = at + FLUSH_NS
            self.recorder.fact("steps_so_far", self.done)
            self.recorder._flush()

    def end(self) -> None:
        about = {"nested": 0, "site": ["train.py", 30], "batch_size": 32}
        self.recorder.event("loop", "fit", self.begun, self.clock.ns, **about)
        self.recorder.fact("end_ns", self.clock.ns)


def record(
    folder: Path, steps: int, max_bytes: int, step_ns: int = 2_000_000, epoch: int = 10_000, spent: bool = False
) -> list[int]:
    """Records a made-up run; with ``spent`` what each step took, in ns."""
    clock, real = Clock(), recording.now
    start_ns = clock.ns
    recording.now = clock
    try:
        recorder = Recorder(folder, max_bytes)
        recorder.open()
        recorder.fact("child", {"pid": 1, "begun_ns": clock.ns})
        run = Run(recorder, clock, step_ns, epoch)
        run.spent = [] if spent else None
        run.go(steps)
        run.end()
        recorder.close()
    finally:
        recording.now = real
    about = {"argv": ["python", "train.py"], "start_ns": start_ns, "end_ns": clock.ns, "exit_code": 0, "cwd": "/"}
    (folder / "launch.json").write_text(json.dumps(about))
    return run.spent or []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--max-disk-mb", type=int, default=200)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--markdown", type=Path, help="the page whose table is filled in")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child, args.steps, args.max_disk_mb * 1_000_000)))
        return 0
    with tempfile.TemporaryDirectory(prefix="slowtrain-long-") as folder:
        rows = [
            _row(Path(folder), steps, args.max_disk_mb) for steps in (args.steps // 100, args.steps // 10, args.steps)
        ]
    text = table(rows)
    print(text)
    if args.markdown:
        from pages import fill

        fill(args.markdown, text)
    return 0


def measured(folder: Path, steps: int, max_bytes: int) -> dict[str, Any]:
    """Records in this process; memory and processor time are the process's own."""
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    record(folder, steps, max_bytes)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = time.process_time() - begun
    return {"before_mb": before / 1e3, "peak_mb": after / 1e3, "us_a_step": spent / steps * 1e6}


def _row(parent: Path, steps: int, max_disk_mb: int) -> dict[str, Any]:
    folder = parent / str(steps)
    folder.mkdir()
    command = [
        sys.executable,
        __file__,
        "--child",
        str(folder),
        "--steps",
        str(steps),
        "--max-disk-mb",
        str(max_disk_mb),
    ]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    disk = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    begun = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = [sys.executable, "-m", "slowtrain", "report", str(folder), "--json", str(folder / "answer.json")]
    subprocess.run(report, check=True, capture_output=True)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**told, "steps": steps, "disk_mb": disk / 1e6, "report_s": wall, "report_cpu_s": cpu}


def table(rows: list[dict[str, Any]]) -> str:
    columns = "steps", "on the disk", "memory for recording, at its peak", "processor time a step"
    head = "| " + " | ".join((*columns, "`slowtrain report`", "processor time of it")) + " |\n"
    line = "| ---: | ---: | ---: | ---: | ---: | ---: |\n"
    return head + line + "".join(
        f"| {r['steps']:,} | {r['disk_mb']:.1f} MB | {r['peak_mb'] - r['before_mb']:.0f} MB | {r['us_a_step']:.1f} µs "
        f"| {r['report_s']:.1f} s | {r['report_cpu_s']:.1f} s |\n"
        for r in rows
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
