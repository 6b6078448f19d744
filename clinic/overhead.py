"""What recording costs: one script twice at the same time, with the recorder and without, in turns.

    python clinic/overhead.py                       steady steps and whole runs of two minutes, of fit and a loop
    python clinic/overhead.py --what none --kinds loop --pairs 3    what the method shows where there is nothing to see

Both processes train; one is stopped while the other runs, so that exactly one runs at any time and whatever else
the machine does falls on both alike. Both keep to one core, the same, which all that the recorder does has to share
with the steps. The script counts its steps in a mapped file. Three comparisons:

``none``   the script against itself: how far the method is off.
``steps``  recorded without windows against not at all, after the first steps; the recorder's thread has its last pace
           from the hundredth step on, not after a minute, so that many pairs can be had.
``all``    recorded with windows against not at all: a fixed number of steps, from the start of the
           command to the end of the training process, imports and closing included; and of these runs
           the steps after the first minute.

Two processes differ by where their memory happens to lie; each script first makes blocks of sizes by lot, and only many
pairs tell what is common to all. A sample is a pair of processes: of steady steps the mean of the middle half of the
ratios of neighbouring turns (few of them hold a window), of ``all`` that of the totals. A table shows the median of
the samples with its 95 % interval from order statistics.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pages import fill

SAID = {
    "none": "without against without",
    "steps": "steady steps, no windows",
    "all": "whole run, with windows",
    "later": "its steps after a minute",
}
SETTLED_S = 60.0  # of its own turns, after which the recorder looks at its last pace
STEP_MS = 2.0  # what the claim is about
WARM_STEPS = 300  # before a steady comparison begins: tracing and the first turns of tf.data's autotuning
MEMORY = Path("/dev/shm")
STEP, PID, CELLS = 0, 1, 2  # what the mapped file of the script holds, 8 bytes each

SCRIPT = """
import mmap, os, random, sys
counts = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 16)).cast("q"); counts[1] = os.getpid()
kind, steps, size, settled_s = sys.argv[2], *map(int, sys.argv[3:])
blocks = [bytearray(random.randrange(1 << 16)) for _ in range(random.randrange(2, 400))]; del blocks[::2]
def settle():
    if "slowtrain" not in sys.modules: return
    from slowtrain.capture.core import recorder
    from slowtrain.capture.process import recorder_setup
    recorder.TICK_PACES = ((0, *recorder.TICK_PACES[0][1:]),)
    for _, call in recorder_setup.current_recorder.pulses:
        if type(call).__name__ == "GrowthWatch": call._begun_ns -= settled_s * 10**9
def count():
    counts[0] += 1
    if settled_s and counts[0] == 100: settle()
import numpy as np, tensorflow as tf, keras
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
x = np.random.rand(100 * size, 256).astype("float32"); y = np.random.rand(100 * size, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
opt = keras.optimizers.SGD(1e-3); model.compile(opt, "mse")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(size).cache().repeat().prefetch(2)
untuned = tf.data.Options(); untuned.autotune.enabled = False; ds = ds.with_options(untuned)
loss_of = keras.losses.MeanSquaredError()
class Count(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None): count()
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_of(b, model(a, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
if kind == "fit":
    model.fit(ds, steps_per_epoch=1000, epochs=steps // 1000, verbose=0, callbacks=[Count()])
else:
    it = iter(ds)
    for i in range(steps):
        a, b = next(it); step(a, b); count()
"""  # noqa: E501  a script as people write them


@dataclass
class Turn:
    """What one side did in one of its turns."""

    steps: int
    wall_s: float
    cpu_s: float  # of the training process, all its threads
    parent_cpu_s: float  # of ``slowtrain run``, which waits


@dataclass
class Sample:
    """One pair of processes: the recorded one over the other."""

    kind: str
    what: str
    step_ms: float
    wall: float
    cpu: float
    turns: int
    parent_cpu_share: float | None = None  # of the wall time: what the waiting parent takes
    answer_s: float | None = None  # from the script's end to the end of ``slowtrain run``
    raw: list[tuple[Turn, Turn]] = field(default_factory=list)


class Side:
    """A process group of its own that runs the script, and is stopped but for its turns."""

    def __init__(self, folder: Path, kind: str, recorded: str | None, steps: int, batch: int, core: int | None) -> None:
        # In memory, where there is such a folder: a page of a disk's file, while it is written, makes who counts wait.
        self._counter = Path(tempfile.mkstemp(dir=MEMORY if MEMORY.is_dir() else folder, suffix=".counts")[1])
        self._counter.write_bytes(bytes(8 * CELLS))
        with self._counter.open("r+b") as file:
            self._counts = memoryview(mmap.mmap(file.fileno(), 8 * CELLS)).cast("q")
        self.runs = Path(tempfile.mkdtemp(dir=folder))
        settled_s = 0 if recorded == "all" else round(SETTLED_S)
        command = [str(folder / "steps.py"), str(self._counter), kind, *map(str, (steps, batch, settled_s))]
        if recorded:
            windows = ["--no-windows"] if recorded == "steps" else []
            command = ["-m", "slowtrain", "run", "--out", str(self.runs), *windows, *command]
        self.recorded = bool(recorded)
        self.turns: list[tuple[float, float]] = []
        self.child = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            start_new_session=True,
        )
        if core is not None:
            os.sched_setaffinity(self.child.pid, {core})  # what it starts inherits it
        self.stop()

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    def ended(self) -> bool:
        """Whether the command has ended. It is left unreaped, so that its figures can be read."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.child.pid, flags) is not None

    def run(self, seconds: float) -> Turn:
        """Lets it run for so long, or to its end."""
        steps, cpu = self._counts[STEP], self._cpu()
        begun = time.perf_counter()
        self.go_on()
        while (left := begun + seconds - time.perf_counter()) > 0 and not self.ended():
            time.sleep(min(left, 0.05))
        self.stop()
        end = time.perf_counter()
        self.turns.append((begun, end))
        after = self._cpu()
        return Turn(self._counts[STEP] - steps, end - begun, after[0] - cpu[0], after[1] - cpu[1])

    def _cpu(self) -> tuple[float, float]:
        """Processor time so far: of the training process, and of the command where that is another one."""
        training = self._counts[PID]
        own = _cpu_s(self.child.pid)
        return (_cpu_s(training) if training else 0.0, own) if self.recorded else (own, 0.0)

    def steps(self) -> int:
        return int(self._counts[STEP])

    def whole(self) -> tuple[float, float, float]:
        """Of a command that has ended: seconds in turns until the script's end, its processor time, seconds after."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = [int(n) / os.sysconf("SC_CLK_TCK") for n in fields[11:15]]  # own user, own system, its children's
        end = math.inf
        if self.recorded:
            launch = json.loads(next(self.runs.glob("*/launch.json")).read_text())
            end = launch["end_ns"] / 1e9  # the same clock as ours
        wall = sum(max(min(b, end) - a, 0.0) for a, b in self.turns)
        after = sum(b - a for a, b in self.turns) - wall
        return wall, sum(ticks[2:]) if self.recorded else sum(ticks[:2]), after

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self.go_on()
        self.child.wait()
        self._counter.unlink(missing_ok=True)


def _cpu_s(pid: int) -> float:
    """Processor time of a process and its threads, to the nanosecond: clock_getcpuclockid(3); 0 once it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def warm(sides: Sequence[Side], kind: str) -> None:
    """Lets them take their first steps, at the same time."""
    for side in sides:
        side.go_on()
    while any(side.steps() < WARM_STEPS for side in sides):
        time.sleep(0.05)
        if any(side.ended() for side in sides):
            raise SystemExit(f"the script of {kind} ended early; run it by itself to see why")
    for side in sides:
        side.stop()


def batches(folder: Path, kinds: Sequence[str], core: int | None) -> dict[str, int]:
    """Writes the script into the folder; the batch of each kind with which a step takes two milliseconds here."""
    (folder / "steps.py").write_text(SCRIPT, encoding="utf-8")
    return {kind: batch_of(folder, kind, core) for kind in kinds}


def batch_of(folder: Path, kind: str, core: int | None) -> int:
    """The batch with which a step takes two milliseconds here, by a line through two sizes."""
    sizes, took = (64, 192), []
    for size in sizes:
        side = Side(folder, kind, None, 1_000_000_000, size, core)
        with contextlib.closing(side):
            warm([side], kind)
            turns = [side.run(1.0) for _ in range(3)]
        took.append(statistics.median(turn.wall_s * 1e3 / turn.steps for turn in turns))
    each = (took[1] - took[0]) / (sizes[1] - sizes[0])
    return max(round(sizes[0] + (STEP_MS - took[0]) / each), 1)


@contextlib.contextmanager
def both(
    folder: Path, kind: str, what: str, steps: int, first: int, batch: int, core: int | None
) -> Iterator[tuple[Side, Side]]:
    """The side that is not recorded, and the one that is; ``first`` says which is started first."""
    sides: dict[int, Side] = {}
    try:
        for i in (first, 1 - first):
            sides[i] = Side(folder, kind, None if i == 0 or what == "none" else what, steps, batch, core)
        yield sides[0], sides[1]
    finally:
        for side in sides.values():
            side.close()


def in_turns(sides: tuple[Side, Side], number: int, seconds: float) -> tuple[Turn, Turn]:
    """A turn of each; who is first changes."""
    first = number % 2
    turns = {i: sides[i].run(seconds) for i in (first, 1 - first)}
    return turns[0], turns[1]


def steady(
    folder: Path, kind: str, what: str, seconds: float, turn_s: float, first: int, batch: int, core: int | None
) -> Sample:
    """Both train for ``seconds`` each once both are warm."""
    with both(folder, kind, what, 1_000_000_000, first, batch, core) as sides:
        warm(sides, kind)
        raw = [in_turns(sides, i, turn_s) for i in range(round(seconds / turn_s))]
    return steps_of(kind, what, raw)


def steps_of(kind: str, what: str, raw: list[tuple[Turn, Turn]]) -> Sample:
    """Turns of steady steps as one sample."""
    wall = middle([(b.wall_s / b.steps) / (a.wall_s / a.steps) for a, b in raw])
    cpu = middle([((b.cpu_s + b.parent_cpu_s) / b.steps) / (a.cpu_s / a.steps) for a, b in raw])
    step_ms = statistics.median(a.wall_s * 1e3 / a.steps for a, _ in raw)
    parent = sum(b.parent_cpu_s for _, b in raw) / sum(b.wall_s for _, b in raw)
    return Sample(kind, what, step_ms, wall, cpu, len(raw), parent_cpu_share=parent, raw=raw)


def whole(folder: Path, kind: str, steps: int, turn_s: float, first: int, batch: int, core: int | None) -> list[Sample]:
    """Both from the start of the command to the end, a fixed number of steps; and their steps after a minute."""
    raw: list[tuple[Turn, Turn]] = []
    with both(folder, kind, "all", steps, first, batch, core) as sides:
        while not all(side.ended() for side in sides):
            raw.append(in_turns(sides, len(raw), turn_s))
        (wall, cpu, _), (recorded_wall, recorded_cpu, after) = (side.whole() for side in sides)
        if sides[0].steps() != steps or sides[1].steps() != steps:
            raise SystemExit(f"the script of {kind} ended early; run it by itself to see why")
    ratio, cpu_ratio = recorded_wall / wall, recorded_cpu / cpu
    samples = [Sample(kind, "all", wall * 1e3 / steps, ratio, cpu_ratio, len(raw), answer_s=after, raw=raw)]
    late = settled(raw)
    return [*samples, steps_of(kind, "later", late)] if late else samples


def settled(raw: Sequence[tuple[Turn, Turn]]) -> list[tuple[Turn, Turn]]:
    """The turns that both began after their first minute, but for those in which one of them came to its end."""
    found, spent = [], [0.0, 0.0]
    for turns in raw:
        if min(spent) >= SETTLED_S and all(t.steps for t in turns):
            found.append(turns)
        spent = [s + t.wall_s for s, t in zip(spent, turns, strict=True)]
    return found[:-1]


def middle(values: Sequence[float]) -> float:
    """The mean of the middle half."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median with the distribution-free 95 % interval of the order statistics (the range below six values)."""
    ordered = sorted(values)
    n = len(ordered)
    k = max(math.floor(n / 2 - 0.98 * math.sqrt(n)), 0)
    return statistics.median(ordered), ordered[k], ordered[n - 1 - k]


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Holds a lock file for one pair, where several people measure on one machine."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def table(samples: Sequence[Sample]) -> list[str]:
    rows = [
        "| loop | what | step without, ms | wall ratio (95 %) | processor ratio (95 %) | pairs |",
        "|---|---|---|---|---|---|",
    ]
    for kind, what in dict.fromkeys((s.kind, s.what) for s in samples):
        here = [s for s in samples if (s.kind, s.what) == (kind, what)]
        ratios = (interval([s.wall for s in here]), interval([s.cpu for s in here]))
        cells = [f"{median:.4f} ({low:.4f} to {high:.4f})" for median, low, high in ratios]
        step_ms = statistics.median(s.step_ms for s in here)
        rows.append(f"| {kind} | {SAID[what]} | {step_ms:.2f} | {cells[0]} | {cells[1]} | {len(here)} |")
    return rows


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8, help="of processes, of each kind and comparison")
    parser.add_argument("--seconds", type=float, default=30.0, help="of training on each side, in none and steps")
    parser.add_argument("--steps", type=int, default=60_000, help="of a whole run: two minutes at 2 ms")
    parser.add_argument("--turn", type=float, default=1.0, metavar="S", help="how long a side runs at a time")
    parser.add_argument("--kinds", nargs="*", default=["fit", "loop"])
    parser.add_argument("--what", nargs="*", default=["none", "steps", "all"], choices=["none", "steps", "all"])
    parser.add_argument("--cores", action="store_true", help="each side uses all cores, not one")
    parser.add_argument("--lock", type=Path, help="a file to be locked during each pair")
    parser.add_argument("--samples", type=Path, help="append every sample to that file, with all its turns")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    return parser


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the two that are paired end as well
    args = arguments().parse_args()
    samples: list[Sample] = []
    core = None if args.cores or not hasattr(os, "sched_setaffinity") else max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="slowtrain-overhead-") as name:
        folder = Path(name)
        sizes = batches(folder, args.kinds, core)
        print(", ".join(f"{kind}: batches of {size}" for kind, size in sizes.items()), flush=True)
        for turn in range(args.pairs):
            for kind in args.kinds:
                for what in args.what:
                    with alone(args.lock):
                        if what == "all":
                            found = whole(folder, kind, args.steps, args.turn, turn % 2, sizes[kind], core)
                        else:
                            found = [steady(folder, kind, what, args.seconds, args.turn, turn % 2, sizes[kind], core)]
                    samples += found
                    for sample in found:
                        print(f"{kind} {sample.what}: wall {sample.wall:.4f}, processor {sample.cpu:.4f}", flush=True)
                        if args.samples:
                            with args.samples.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(asdict(sample)) + "\n")
    rows = table(samples)
    print("\n".join(rows))
    if args.markdown:
        given = f"--pairs {args.pairs} --seconds {args.seconds:g} --steps {args.steps} --turn {args.turn:g}"
        command = f"python clinic/overhead.py {given} --kinds {' '.join(args.kinds)} --what {' '.join(args.what)}"
        command += " --cores" if args.cores else ""
        fill(args.markdown, "\n".join([f"Made by `{command}`.", "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
