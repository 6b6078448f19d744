"""What recording costs: the same script with and without the recorder, in turn, the process as the sample.

    python clinic/overhead.py                      steps of 2 ms, 10 rounds each of fit and a loop
    python clinic/overhead.py --pairs 20 --seconds 60

Two figures for each kind of loop: the steady step outside windows (recording without
windows against no recording), and the whole training time with windows. Ratios within a round of
three processes, median with a 95 % interval from the order statistics; wall time and processor time.

A process's steady step is that of the fifth of its stretches of 200 steps that were least disturbed by what else the
machine does; a stretch is long enough to hold the recorder's own periodic work. The whole training time is a mean.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import fill

Result = dict[str, list[float]]  # wall and processor ms a step, of the least disturbed stretches and of all

SCRIPT = """
import json, resource, statistics, sys, time
import numpy as np, tensorflow as tf, keras
kind, seconds = sys.argv[1], float(sys.argv[2])
x = np.random.rand(6400, 256).astype("float32"); y = np.random.rand(6400, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(640, activation="relu"), keras.layers.Dense(640, activation="relu"), keras.layers.Dense(1)])
opt = keras.optimizers.SGD(1e-3); model.compile(opt, "mse")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).cache().repeat().prefetch(2)
loss_of = keras.losses.MeanSquaredError()
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_of(b, model(a, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
def cpu():
    use = resource.getrusage(resource.RUSAGE_SELF); return use.ru_utime + use.ru_stime
if kind == "fit":
    model.fit(ds, steps_per_epoch=100, epochs=1, verbose=0)
else:
    it = iter(ds)
    for i in range(100): a, b = next(it); step(a, b)
n = 0; begun = time.perf_counter(); begun_cpu = cpu(); stretches = []
while time.perf_counter() - begun < seconds:
    at, at_cpu = time.perf_counter(), cpu()
    if kind == "fit":
        model.fit(ds, steps_per_epoch=200, epochs=1, verbose=0); n += 200
    else:
        for i in range(200): a, b = next(it); step(a, b)
        n += 200
    stretches.append(((time.perf_counter() - at) * 5, (cpu() - at_cpu) * 5))
least = [statistics.quantiles(column, n=5)[0] for column in zip(*stretches)]
whole = [(time.perf_counter() - begun) * 1e3 / n, (cpu() - begun_cpu) * 1e3 / n]
print("RESULT", json.dumps({"steps": least, "all": whole}))
"""  # noqa: E501  a script as people write them


def once(script: Path, kind: str, seconds: float, recorded: str) -> Result:
    """One process; ``recorded`` is ``no``, ``steps`` (no windows) or ``all``."""
    command = [sys.executable, str(script), kind, str(seconds)]
    if recorded != "no":
        windows = ["--no-windows"] if recorded == "steps" else []
        command = [
            sys.executable,
            "-m",
            "slowtrain",
            "run",
            "--out",
            str(script.parent / "runs"),
            *windows,
            *command[1:],
        ]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    line = next(row for row in done.stdout.splitlines() if row.startswith("RESULT"))
    found: Result = json.loads(line.partition(" ")[2])
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median with the distribution-free 95 % interval of the order statistics (the range below six values)."""
    ordered = sorted(values)
    n = len(ordered)
    k = max(math.floor(n / 2 - 0.98 * math.sqrt(n)), 0)
    return statistics.median(ordered), ordered[k], ordered[n - 1 - k]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of training in each process")
    parser.add_argument("--kinds", nargs="*", default=["fit", "loop"])
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    rows = [
        "| loop | what | step without, ms | wall ratio (95 %) | processor ratio (95 %) | pairs |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(rows))
    with tempfile.TemporaryDirectory(prefix="slowtrain-overhead-") as folder:
        script = Path(folder, "steps.py")
        script.write_text(SCRIPT, encoding="utf-8")
        for kind in args.kinds:
            rounds = [one_round(script, kind, args.seconds, turn) for turn in range(args.pairs)]
            for what in ("steps", "all"):
                rows.append(row(kind, what, rounds))
                print(rows[-1], flush=True)
    if args.markdown:
        made = f"Made by `python clinic/overhead.py --pairs {args.pairs} --seconds {args.seconds:g}`."
        fill(args.markdown, "\n".join([made, "", *rows]) + "\n")
    return 0


def one_round(script: Path, kind: str, seconds: float, turn: int) -> dict[str, Result]:
    """Alone, recorded without windows, and with them, in an order that changes with the turn."""
    order = ["no", "steps", "all"]
    order = order[turn % 3 :] + order[: turn % 3]
    return {recorded: once(script, kind, seconds, recorded) for recorded in (order if turn % 2 == 0 else order[::-1])}


def row(kind: str, what: str, rounds: list[dict[str, Result]]) -> str:
    cells = []
    for i in (0, 1):
        median, low, high = interval([one[what][what][i] / one["no"][what][i] for one in rounds])
        cells.append(f"{median:.4f} ({low:.4f} to {high:.4f})")
    base = statistics.median(one["no"][what][0] for one in rounds)
    said = {"steps": "steady steps, no windows", "all": "all, with windows"}[what]
    return f"| {kind} | {said} | {base:.2f} | {cells[0]} | {cells[1]} | {len(rounds)} |"


if __name__ == "__main__":
    sys.exit(main())
