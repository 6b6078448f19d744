"""What all of recording costs, within one process: the wrappers and the recorder's thread, off and on in turns.

    python clinic/switched.py --processes 4 --seconds 40 --markdown docs/overhead.md

For a second the script runs as recorded; for the next the frameworks' own functions are put back and the recorder's
thread waits. Both are the same process: the same memory, the same threads, so that what sets a script apart from
itself in two processes falls out. Steady steps are looked at: no windows, and the thread looks as often as it does
after its first minute. Processor time is that of the whole process with all its threads, and that of the waiting
``slowtrain run`` is added where the script is recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from overhead import alone, interval, middle
from pages import fill

SCRIPT = """
import gc, json, os, sys, threading, time
import numpy as np, tensorflow as tf, keras
from slowtrain.capture import child, patching, recorder
kind, seconds, turn_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
x = np.random.rand(6400, 256).astype("float32"); y = np.random.rand(6400, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
opt = keras.optimizers.SGD(1e-3); model.compile(opt, "mse")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).cache().repeat().prefetch(2)
loss_of = keras.losses.MeanSquaredError()
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_of(b, model(a, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
class Switch:
    def __init__(self):
        self.places = [(o, n, vars(o)[n], original) for o, n, original in patching._done]
        if kind == "fit": self.places.append((model, "train_function", model.train_function, model.train_function.__wrapped__))
        self.watches = [c for c in gc.callbacks if c.__module__.startswith("slowtrain")]
        self.gate, self.on = threading.Lock(), True
        recorder.PACES = ((0, *recorder.PACES[0][1:]),)
        tick = child.current._tick
        def gated(ticks):
            with self.gate: tick(ticks)
        child.current._tick = gated
    def __call__(self):
        self.on = not self.on
        if self.on: gc.callbacks.extend(self.watches)
        else: self.gate.acquire()
        for owner, name, ours, original in self.places: setattr(owner, name, ours if self.on else original)
        if self.on: self.gate.release()
        else: gc.callbacks[:] = [c for c in gc.callbacks if c not in self.watches]
def clocks(): return time.perf_counter(), time.process_time(), time.clock_gettime((~os.getppid() << 3) | 2)
switch, count, since, until, turns = None, 0, None, 0.0, []
def border():
    global switch, count, since, until
    count += 1
    if switch is None:
        if count == 600: switch, until = Switch(), 0.0
        return False
    if time.perf_counter() < until: return False
    if since is not None: turns.append([switch.on, count - since[0], *(b - a for a, b in zip(since[1], clocks()))])
    if len(turns) % 2: switch()  # on off, off on, on off ...
    until = time.perf_counter() + turn_s
    since = count, clocks()
    return len(turns) * turn_s >= seconds
if kind == "fit":
    class Count(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if border(): raise KeyboardInterrupt
    try: model.fit(ds, steps_per_epoch=1000, epochs=10**6, verbose=0, callbacks=[Count()])
    except KeyboardInterrupt: pass
else:
    it = iter(ds)
    while not border():
        a, b = next(it); step(a, b)
if not switch.on: switch()
print("RESULT", json.dumps(turns))
"""  # noqa: E501  a script as people write them


@dataclass(frozen=True)
class Turn:
    recorded: bool
    steps: int
    wall_s: float
    cpu_s: float  # of the process, all its threads
    parent_cpu_s: float  # of ``slowtrain run``, which waits

    @property
    def wall(self) -> float:
        return self.wall_s / self.steps

    @property
    def cpu(self) -> float:
        return (self.cpu_s + (self.parent_cpu_s if self.recorded else 0.0)) / self.steps


@dataclass(frozen=True)
class Process:
    """Ratios of neighbouring turns, recorded over not, and how long a step is without recording."""

    wall: list[float]
    cpu: list[float]
    step_ms: float


def once(folder: Path, kind: str, seconds: float, turn_s: float) -> Process:
    script, runs = folder / "steps.py", folder / "runs"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "slowtrain", "run", "--no-windows", "--out", str(runs), str(script)]
    done = subprocess.run(
        [*command, kind, str(seconds), str(turn_s)], capture_output=True, text=True, check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    said = next(row for row in done.stdout.splitlines() if row.startswith("RESULT"))
    turns = [Turn(*row) for row in json.loads(said.partition(" ")[2])]
    pairs = [sorted(pair, key=lambda t: t.recorded) for pair in zip(turns[::2], turns[1::2], strict=False)]
    step_ms = middle([1e3 * without.wall for without, _ in pairs])
    return Process([b.wall / a.wall for a, b in pairs], [b.cpu / a.cpu for a, b in pairs], step_ms)


def row(kind: str, found: list[Process]) -> str:
    cells = []
    for what in ("wall", "cpu"):
        ratios = [ratio for process in found for ratio in getattr(process, what)]
        median, low, high = interval(ratios)
        each = [middle(getattr(process, what)) for process in found]
        cells.append(f"{median:.4f} ({low:.4f} to {high:.4f})")
        cells.append(f"{min(each):.4f} to {max(each):.4f}")
    pairs = sum(len(process.wall) for process in found)
    step_ms = middle([process.step_ms for process in found])
    return f"| {kind} | {step_ms:.2f} | {' | '.join(cells)} | {len(found)} | {pairs} |"


HEAD = [
    "| loop | step without, ms | wall ratio (95 %) | each | processor ratio (95 %) | each | processes | pairs |",
    "|---|---|---|---|---|---|---|---|",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="of each kind")
    parser.add_argument("--seconds", type=float, default=40.0, help="of turns in each")
    parser.add_argument("--turn", type=float, default=1.0, metavar="S")
    parser.add_argument("--kinds", nargs="*", default=["loop", "fit"])
    parser.add_argument("--lock", type=Path, help="a file to be locked while a process runs")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    found: dict[str, list[Process]] = {kind: [] for kind in args.kinds}
    for _ in range(args.processes):
        for kind in args.kinds:
            with tempfile.TemporaryDirectory(prefix="slowtrain-switched-") as name, contextlib.ExitStack() as stack:
                stack.enter_context(alone(args.lock))
                found[kind].append(once(Path(name), kind, args.seconds, args.turn))
            print(row(kind, found[kind][-1:]), flush=True)
    rows = [*HEAD, *(row(kind, found[kind]) for kind in args.kinds)]
    print("\n".join(rows))
    if args.markdown:
        given = f"--processes {args.processes} --seconds {args.seconds:g} --turn {args.turn:g}"
        fill(args.markdown, "\n".join([f"Made by `python clinic/switched.py {given}`.", "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
