"""Subscription churn score. Runs on preemptible workers, resumes where it was."""
import argparse
import os
import shutil
import tempfile
import time

import numpy as np
import keras
from keras import layers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", default=None)
    parser.add_argument("--customers", type=int, default=25600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--resume-granularity", type=int, default=2, help="batches that may be lost")
    return parser.parse_args()


def customer_table(n, seed=21):
    rng = np.random.default_rng(seed)
    usage = rng.standard_normal((n, 300), dtype="float32").cumsum(axis=1) / 10
    static = rng.standard_normal((n, 100), dtype="float32")
    features = np.concatenate([usage, static], axis=1)
    drop = usage[:, 200:].mean(1) - usage[:, :100].mean(1) + static[:, :5].sum(1) * 0.3
    churned = (drop + rng.normal(0, 0.5, n) < -0.4).astype("float32")
    return features, churned


class GatedBlock(layers.Layer):
    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.value = layers.Dense(units)
        self.gate = layers.Dense(units, activation="sigmoid")

    def build(self, shape):
        self.value.build(shape)
        self.gate.build(shape)

    def call(self, x):
        return self.value(x) * self.gate(x)


def scorer(width):
    inp = keras.Input((width,))
    x = layers.LayerNormalization()(inp)
    for units in (384, 256, 128, 64):
        x = GatedBlock(units)(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inp, out, name="churn")
    model.compile(keras.optimizers.Adam(5e-4), loss="binary_crossentropy",
                  metrics=[keras.metrics.AUC(num_thresholds=50, name="auc")])
    return model


def callbacks(workdir, args):
    return [
        keras.callbacks.BackupAndRestore(os.path.join(workdir, "state"), save_freq=args.resume_granularity),
        keras.callbacks.CSVLogger(os.path.join(workdir, "log.csv")),
        keras.callbacks.TerminateOnNaN(),
    ]


def main():
    args = arguments()
    keras.utils.set_random_seed(2)
    workdir = args.workdir or tempfile.mkdtemp(prefix="churn-")
    x, y = customer_table(args.customers)
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    model = scorer(x.shape[1])
    print(f"{model.count_params():,} parameters")

    t = time.monotonic()
    fit = model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=2,
                    callbacks=callbacks(workdir, args))
    seconds = time.monotonic() - t
    print("auc by epoch", [round(float(v), 3) for v in fit.history["auc"]])
    if args.workdir is None:
        shutil.rmtree(workdir, ignore_errors=True)
    print("WORK", args.customers * args.epochs)
    print("TRAIN_SECONDS", round(seconds, 3))


if __name__ == "__main__":
    main()
