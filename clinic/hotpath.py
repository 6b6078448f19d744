"""What recording costs in a step, by its parts, each measured where it is paid: wrappers, thread, waiting parent.

    python clinic/hotpath.py --processes 5 --markdown docs/overhead.md

The wrappers run in the main thread. Every other step goes past them to the framework's own functions, and the
processor time of the main thread is compared between neighbouring steps; so that what else the machine does hardly
shows. A process gives one figure, the mean of the middle half of its differences. The recorder's thread and the waiting
``slowtrain run`` do nothing else, so that their own processor time is what they cost: over the steps taken meanwhile,
at each of the thread's three paces, and with walks through the script's containers as often as they come by then.

What the thread does to the steps, whose caches it empties, is measured at its last pace: the processor time of the
main thread in the three steps around its waking, less that of the three before and the three after. The script keeps to
one core. The same is done in turn without the fronts in C that stand before the wrappers (``SLOWTRAIN_NATIVE=0``).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import overhead
from pages import fill

STEP_US = 2000.0  # the step that the claim is about
PACE_S = (20.0, 40.0, 60.0)  # of the first two minutes, in which the thread keeps each of its paces

SCRIPT = """
import itertools, json, os, sys, threading, time
import numpy as np, tensorflow as tf, keras
from slowtrain.capture.core import patching, recorder
from slowtrain.capture.process import recorder_setup
kind, size, core, (seconds, paced_s) = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), map(float, sys.argv[4:])
os.sched_setaffinity(0, {core})
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
x = np.random.rand(100 * size, 256).astype("float32"); y = np.random.rand(100 * size, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
opt = keras.optimizers.SGD(1e-3); model.compile(opt, "mse")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(size).cache().repeat().prefetch(2)
untuned = tf.data.Options(); untuned.autotune.enabled = False; ds = ds.with_options(untuned)
loss_of = keras.losses.MeanSquaredError()
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_of(b, model(a, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
class Quiet(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): pass
on = [True]
def either(wrapper, original):
    def dispatch(*args, **kwargs):
        return (wrapper if on[0] else original)(*args, **kwargs)
    return dispatch
WRAPPED = {("Function", "__call__"), ("OwnedIterator", "__next__"), ("Quiet", "on_train_batch_end")}
def switchable():
    for owner, name, original in patching._replaced:
        if (getattr(owner, "__name__", ""), name) in WRAPPED:
            setattr(owner, name, either(owner.__dict__[name], original))
        if name == "_numpy":  # Keras asks in each step whether there was a batch; a front looks at its caller's caller
            owner.__bool__ = either(owner.__bool__, lambda tensor, original=original: bool(original(tensor)))
    if kind == "fit":
        model.train_function = either(model.train_function, model.train_function.__wrapped__)
def ours(frame):
    while frame is not None and not frame.f_code.co_filename.endswith("capture/core/recorder.py"): frame = frame.f_back
    return frame is not None
def beside():
    main = threading.main_thread().ident
    thread = next(i for i, frame in sys._current_frames().items() if i != main and ours(frame))
    clocks = time.pthread_getcpuclockid(thread), (~os.getppid() << 3) | 2
    return lambda: [time.perf_counter(), *map(time.clock_gettime, clocks)]
costs, paces, lengths, cpus, woken = [], [], [], [], []
def waking(tick):
    def noted(self, ticks):
        woken.append(len(cpus)); tick(self, ticks)
    return noted
def disturbed():  # ns of the main thread's in the steps around each waking, over the steps beside them
    rows = [[b - a for a, b in zip(cpus[i - 5 : i + 6], cpus[i - 4 : i + 7])] for i in woken if 5 <= i < len(cpus) - 7]
    return [sum(row[4:7]) - (sum(row[:3]) + sum(row[-3:])) / 2 for row in rows]
def borders():
    for _ in range(300): yield
    read = beside()
    watch = next(call for _, call in recorder_setup.current_recorder.pulses if type(call).__name__ == "GrowthWatch")
    for pace, since_s in zip(reversed(recorder.TICK_PACES), (0, 20, 60)):
        recorder.TICK_PACES = ((0, *pace[1:]),)
        if since_s: watch._begun_ns = recorder.now() - since_s * 10**9  # its walks become rarer as time goes on
        begun = read()
        for count in itertools.count(1):
            yield
            if time.perf_counter() - begun[0] > paced_s: break
        wall, *cpu = (b - a for a, b in zip(begun, read()))
        paces.append([*(c / count * 1e6 for c in cpu), *(c / wall for c in cpu)]); lengths.append(wall / count * 1e6)
    recorder.Recorder._tick = waking(recorder.Recorder._tick)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        cpus.append(time.thread_time_ns())
        yield
    switchable()
    end, first = time.perf_counter() + seconds, True
    while time.perf_counter() < end:
        took = {}
        for on[0] in (first, not first):  # the next two in the other order
            begun = time.thread_time_ns()
            yield
            took[on[0]] = time.thread_time_ns() - begun
        costs.append(took[True] - took[False]); first = not first
border = borders()
if kind == "fit":
    def tick(batch, logs=None):
        try: next(border)
        except StopIteration: raise KeyboardInterrupt
    class Border(keras.callbacks.Callback):
        on_train_batch_begin = staticmethod(tick)  # which the recorder leaves alone
    try: model.fit(ds, steps_per_epoch=10**8, verbose=0, callbacks=[Border(), Quiet()])
    except KeyboardInterrupt: pass
else:
    it = iter(ds)
    for _ in border:
        a, b = next(it); step(a, b)
print("RESULT", json.dumps({
    "wrappers_ns": costs, "paces": paces, "step_us": sum(lengths) / len(lengths),
    "disturbed_ns": disturbed(), "steps_each": len(cpus) / len(woken)}))
"""  # noqa: E501  a script as people write them


@dataclass(frozen=True)
class Cost:
    """Of one process: µs of a step, and how long a step is; the thread's at each of its paces."""

    step: float
    wrappers: float
    thread: tuple[float, ...]
    parent: float
    pairs: int
    disturbed: float  # by what the thread's waking makes the steps longer, without its own time

    def share(self, thread: float) -> float:
        """Of a step of 2 ms: what is paid by the step, and what is paid by the time, with that much of the thread's."""
        return self.wrappers / STEP_US + (thread + self.disturbed + self.parent) / self.step

    @property
    def settled(self) -> float:
        """Once the thread has settled."""
        return self.share(self.thread[-1])

    @property
    def two_minutes(self) -> float:
        """In the mean of a run's first two minutes: the thread's paces last for 20, 40 and 60 seconds of them."""
        return self.share(sum(each * s for each, s in zip(self.thread, PACE_S, strict=True)) / sum(PACE_S))


def once(folder: Path, kind: str, native: str, batch: int, core: int, args: argparse.Namespace) -> Cost:
    script, runs = folder / "steps.py", folder / "runs"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "slowtrain", "run", "--no-windows", "--out", str(runs), str(script)]
    done = subprocess.run(
        [*command, kind, *map(str, (batch, core, args.seconds, args.paced))],
        capture_output=True, text=True, check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "SLOWTRAIN_NATIVE": native},
    )  # fmt: skip
    found = json.loads(next(row for row in done.stdout.splitlines() if row.startswith("RESULT")).partition(" ")[2])
    thread = tuple(pace[0] for pace in found["paces"])
    parent = statistics.fmean(pace[1] for pace in found["paces"])
    wrappers = overhead.middle(found["wrappers_ns"]) / 1e3
    disturbed = overhead.middle(found["disturbed_ns"]) / 1e3 / found["steps_each"]
    return Cost(found["step_us"], wrappers, thread, parent, len(found["wrappers_ns"]), disturbed)


def row(kind: str, found: list[Cost]) -> str:
    """Medians, with the range of the processes."""

    def cell(read: Callable[[Cost], float], form: str = "{:.1f}") -> str:
        values = [read(one) for one in found]
        low, high = (form.format(v) for v in (min(values), max(values)))
        return f"{form.format(statistics.median(values))} ({low} to {high})"

    paces = [cell(lambda one, i=i: one.thread[i]) for i in range(len(found[0].thread))]  # type: ignore[misc]
    cells = [
        cell(lambda one: one.step / 1e3, "{:.2f}"), cell(lambda one: one.wrappers), *paces,
        cell(lambda one: one.disturbed), cell(lambda one: one.parent),
        cell(lambda one: one.settled, "{:.2%}"),
        cell(lambda one: one.two_minutes, "{:.2%}"),
    ]  # fmt: skip
    return f"| {kind} | {' | '.join(cells)} | {len(found)} | {sum(one.pairs for one in found):,} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0, help="of steps in turns, and beside the thread")
    parser.add_argument("--paced", type=float, default=10.0, metavar="S", help="of training at each of the paces")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    rows = [
        "| loop | step ms | wrappers | thread: 20 s | 60 s | later | disturbs | parent | 2 ms | 2 min | runs | pairs |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    ways = {"1": "", "0": ", in Python alone"}
    found: dict[tuple[str, str], list[Cost]] = {(kind, way): [] for way in ways for kind in ("loop", "fit")}
    core = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="slowtrain-hotpath-") as temporary:
        batches = overhead.batches(Path(temporary), ["loop", "fit"], core)
    for _ in range(args.processes):
        for (kind, way), costs in found.items():
            with tempfile.TemporaryDirectory(prefix="slowtrain-hotpath-") as temporary:
                costs.append(once(Path(temporary), kind, way, batches[kind], core, args))
            print(row(kind + ways[way], costs[-1:]), flush=True)
    rows += [row(kind + ways[way], costs) for (kind, way), costs in found.items()]
    print("\n".join(rows))
    if args.markdown:
        given = f"--processes {args.processes} --seconds {args.seconds:g} --paced {args.paced:g}"
        fill(args.markdown, "\n".join([f"Made by `python clinic/hotpath.py {given}`.", "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
