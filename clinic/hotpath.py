"""What the recorder's wrappers cost in a step: switched off and on from step to step, within one process.

    python clinic/hotpath.py --processes 5 --markdown docs/overhead.md

Every other step goes past the wrappers to the framework's own functions. What is compared is the processor time of the
main thread, in which the wrappers run, between neighbouring steps; so that what else the machine does hardly shows.
A process gives one figure, the mean of the middle half of its differences. The recorder's background thread runs all
the time and is told by itself, as its share of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import fill

STEP_US = 2000.0  # the step that the claim is about

SCRIPT = """
import json, sys, time
import numpy as np, tensorflow as tf, keras
from slowtrain.capture import patching
kind, seconds = sys.argv[1], float(sys.argv[2])
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
on = [True]
def either(wrapper, original):
    def dispatch(*args, **kwargs):
        return (wrapper if on[0] else original)(*args, **kwargs)
    return dispatch
taken, costs, steps = [], [], []
count = 0
def border():
    global count
    count += 1
    if count < 300:
        return
    if count == 300:
        for owner, name, original in patching._done:
            if isinstance(owner, type) and name in ("__call__", "__next__") and owner.__name__ in ("Function", "OwnedIterator"):
                setattr(owner, name, either(owner.__dict__[name], original))
        if kind == "fit":
            model.train_function = either(model.train_function, model.train_function.__wrapped__)
    at = time.thread_time_ns()
    if taken:
        steps.append((on[0], at - taken[-1]))
        if len(steps) >= 2 and len(steps) % 2 == 0:
            (first, a), (second, b) = steps[-2:]
            if first != second:
                costs.append(a - b if first else b - a)
                on[0] = not on[0]  # the next two in the other order
            on[0] = not on[0]
        else:
            on[0] = not on[0]
    taken.append(time.thread_time_ns())
end = time.perf_counter() + seconds
if kind == "fit":
    class Count(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            border()
            if time.perf_counter() > end:
                raise KeyboardInterrupt
    try: model.fit(ds, steps_per_epoch=10**8, verbose=0, callbacks=[Count()])
    except KeyboardInterrupt: pass
else:
    it = iter(ds)
    while time.perf_counter() < end:
        border(); a, b = next(it); step(a, b)
costs.sort(); quarter = len(costs) // 4
print("RESULT", json.dumps({"us": sum(costs[quarter:-quarter]) / max(len(costs) - 2 * quarter, 1) / 1e3, "pairs": len(costs)}))
"""  # noqa: E501  a script as people write them


def once(folder: Path, kind: str, seconds: float) -> tuple[float, int, float | None]:
    """Cost of a step in µs, pairs of steps it comes from, and the background thread's share of a core."""
    script, runs = folder / "steps.py", folder / "runs"
    script.write_text(SCRIPT, encoding="utf-8")
    answer = folder / "answer.json"
    command = [sys.executable, "-m", "slowtrain", "run", "--no-windows", "--out", str(runs), "--json", str(answer)]
    done = subprocess.run(
        [*command, str(script), kind, str(seconds)], capture_output=True, text=True, check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    found = json.loads(next(row for row in done.stdout.splitlines() if row.startswith("RESULT")).partition(" ")[2])
    return found["us"], found["pairs"], json.loads(answer.read_text(encoding="utf-8"))["overhead"]["share"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0, help="of training in each")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    rows = [
        "| loop | wrappers, µs a step: median (range) | of a step of 2 ms | processes | pairs of steps |",
        "|---|---|---|---|---|",
    ]
    for kind in ("loop", "fit"):
        found = []
        for _ in range(args.processes):
            with tempfile.TemporaryDirectory(prefix="slowtrain-hotpath-") as temporary:
                found.append(once(Path(temporary), kind, args.seconds))
        costs = [us for us, _, _ in found]
        middle = statistics.median(costs)
        cells = [f"{middle:.0f} ({min(costs):.0f} to {max(costs):.0f})", f"{middle / STEP_US:.1%}"]
        rows.append(f"| {kind} | {cells[0]} | {cells[1]} | {len(found)} | {sum(n for _, n, _ in found):,} |")
        print(rows[-1], flush=True)
    if args.markdown:
        made = f"Made by `python clinic/hotpath.py --processes {args.processes} --seconds {args.seconds:g}`."
        fill(args.markdown, "\n".join([made, "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
