"""What `run --on-nonfinite` and somebody watching cost in a step: switched off and on again within one process.

    python clinic/options_cost.py --processes 3 --markdown docs/options-cost.md

One process trains for a while with the option's wrappers and for as long without, in turns of half a second; what is
compared is the processor time of all its threads for a step in neighbouring turns, and what comes out is the ratio of
both, so that what else the machine does hardly shows. The recorder itself runs all the time. `slowtrain watch
--every 2`, which looks as often as the view in a terminal does, runs as a process of its own and is stopped in every
other turn; its own processor time is told as a share of a core.
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

KINDS = ("function", "eager", "fit")
SCRIPT = """
import json, os, resource, signal, subprocess, sys, time
import numpy as np, tensorflow as tf, keras
from slowtrain.capture.process import recorder_setup
kind, what, seconds, folder = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
x = np.random.rand(6400, 256).astype("float32"); y = np.random.rand(6400, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
opt = keras.optimizers.Adam(1e-5); model.compile(opt, "mse")
loss_of = keras.losses.MeanSquaredError()
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).cache().repeat().prefetch(2)
def step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_of(b, model(a, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
if kind == "function":
    step = tf.function(step)
watcher, share = None, 0.0
if what == "watch":
    watcher = subprocess.Popen([sys.executable, "-m", "slowtrain", "watch", "--every", "2", "--out", folder], start_new_session=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def switch(on):
    if watcher is not None:
        os.killpg(watcher.pid, signal.SIGCONT if on else signal.SIGSTOP)
    else:
        checking = next(call for _, call in recorder_setup.current_recorder.pulses if type(call).__name__ == "LossWatch").checking
        checking._done = checking.eager.over = not on
        if not on:
            checking.eager.noting = None
            checking._calls, checking._states = [], []
        checking._due_ns = 0
TURN, WARM = 0.5, 4.0
on, turns, count, began, since, spent = True, [], 0, time.perf_counter(), None, 0.0
def border():
    global on, count, since, spent
    at = time.perf_counter()
    if at - began < WARM:
        return
    if since is None:
        since, spent = at, time.process_time()
    elif at - since > TURN and count >= 5:
        turns.append((on, (time.process_time() - spent) / count))
        on = not on if len(turns) % 2 else on  # on, off, off, on, on: neighbours in both orders
        switch(on)
        count, since, spent = 0, time.perf_counter(), time.process_time()
        return
    count += 1
end = began + WARM + seconds
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
if watcher is not None:
    os.killpg(watcher.pid, signal.SIGCONT); os.killpg(watcher.pid, signal.SIGKILL); watcher.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN); share = (used.ru_utime + used.ru_stime) / (WARM + seconds / 2)
ratios = []
for (first, a), (second, b) in zip(turns, turns[1:]):
    if first != second:
        ratios.append(a / b if first else b / a)
off = sorted(t for o, t in turns if not o)
ratios.sort()
print("RESULT", json.dumps({"ratio": ratios[len(ratios) // 2], "pairs": len(ratios), "step_ms": 1e3 * off[len(off) // 2], "share": share}))
"""  # noqa: E501  a script as people write them


def once(folder: Path, kind: str, what: str, seconds: float) -> dict[str, float]:
    """The ratio of a step's time with the option to that without, the pairs of turns, and the step without."""
    script, runs = folder / "steps.py", folder / "runs"
    script.write_text(SCRIPT, encoding="utf-8")
    options = ["--on-nonfinite", "report"] if what == "nonfinite" else []
    command = [sys.executable, "-m", "slowtrain", "run", "--no-windows", *options, "--out", str(runs)]
    done = subprocess.run(
        [*command, str(script), kind, what, str(seconds), str(runs)], capture_output=True, text=True, check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    found: dict[str, float] = json.loads(
        next(row for row in done.stdout.splitlines() if row.startswith("RESULT")).partition(" ")[2]
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0, help="of training in each")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    rows = [
        "| | loop | step without, processor ms | with it: median of processes (range) | pairs of turns | beside it |",
        "|---|---|---|---|---|---|",
    ]
    for what, name in (("nonfinite", "`--on-nonfinite report`"), ("watch", "`slowtrain watch`")):
        for kind in KINDS:
            found = []
            for _ in range(args.processes):
                with tempfile.TemporaryDirectory(prefix="slowtrain-options-") as temporary:
                    found.append(once(Path(temporary), kind, what, args.seconds))
            ratios = [f["ratio"] - 1 for f in found]
            middle = f"{statistics.median(ratios):+.1%} ({min(ratios):+.1%} to {max(ratios):+.1%})"
            step = statistics.median(f["step_ms"] for f in found)
            pairs, share = sum(int(f["pairs"]) for f in found), statistics.median(f["share"] for f in found)
            beside = f"{share:.0%} of a core" if what == "watch" else ""
            rows.append(f"| {name} | {kind} | {step:.2f} | {middle} | {pairs} | {beside} |")
            print(rows[-1], flush=True)
    if args.markdown:
        made = f"Made by `python clinic/options_cost.py --processes {args.processes} --seconds {args.seconds:g}`."
        fill(args.markdown, "\n".join([made, "", *rows]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
