"""Federated averaging over cardiology wards, simulated on one machine.

Every ward keeps its own 12-lead ECGs (3-9 thousand, 10 s at 100 Hz, int16 microvolts) in wards/<name>.npz.
The server model is the sample-weighted mean of what the wards send back.
"""
import argparse
import json
import logging
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

LABELS = ["NORM", "MI", "STTC", "CD", "HYP"]
logger = logging.getLogger("fed")


def block(x, filters, stride):
    skip = x
    if stride > 1 or x.shape[-1] != filters:
        skip = layers.Conv1D(filters, 1, strides=stride, padding="same", use_bias=False)(x)
    x = layers.Conv1D(filters, 7, strides=stride, padding="same", use_bias=False)(x)
    x = layers.GroupNormalization(8)(x)
    x = layers.ReLU()(x)
    x = layers.Conv1D(filters, 7, padding="same", use_bias=False)(x)
    x = layers.GroupNormalization(8)(x)
    return layers.ReLU()(layers.Add()([x, skip]))


def make_model():
    inp = keras.Input((1000, 12), dtype="int16")
    x = layers.Lambda(lambda v: tf.cast(v, tf.float32) / 1000.0, output_shape=(1000, 12))(inp)
    x = layers.Conv1D(64, 15, strides=2, padding="same")(x)
    for filters, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)]:
        x = block(x, filters, stride)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(len(LABELS))(x))


def load_ward(path, batch, seed):
    with np.load(path) as z:
        x, y = z["ecg"], z["labels"].astype("float32")
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=seed)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE), len(x)


class Server:
    def __init__(self, args):
        self.args = args
        self.model = make_model()
        self.model.compile(
            loss=keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=[keras.metrics.AUC(multi_label=True, num_labels=len(LABELS),
                                       from_logits=True, name="auc")])
        self.rng = np.random.default_rng(args.seed)
        self.wards = {p.stem: load_ward(p, args.batch, args.seed)
                      for p in sorted(Path(args.wards).glob("*.npz"))}
        with np.load(args.holdout) as z:
            holdout = tf.data.Dataset.from_tensor_slices((z["ecg"], z["labels"].astype("float32")))
        self.holdout = holdout.batch(512).prefetch(tf.data.AUTOTUNE)

    def rate(self, rnd):
        return self.args.lr * 0.5 * (1.0 + np.cos(np.pi * rnd / self.args.rounds))

    def visit(self, name, weights, rnd):
        data, size = self.wards[name]
        model = make_model()
        model.compile(optimizer=keras.optimizers.SGD(float(self.rate(rnd))),
                      loss=keras.losses.BinaryCrossentropy(from_logits=True))
        model.set_weights(weights)
        hist = model.fit(data, epochs=self.args.local_epochs, verbose=0)
        return model.get_weights(), size, hist.history["loss"][-1]

    def round(self, rnd):
        names = self.rng.choice(sorted(self.wards), self.args.per_round, replace=False)
        start = self.model.get_weights()
        total, acc, losses = 0, [np.zeros_like(w) for w in start], []
        for name in names:
            weights, size, loss = self.visit(name, start, rnd)
            for a, w in zip(acc, weights):
                a += size * w
            total += size
            losses.append(loss)
        self.model.set_weights([a / total for a in acc])
        return float(np.mean(losses))

    def run(self):
        history = []
        for rnd in range(self.args.rounds):
            t0 = time.perf_counter()
            loss = self.round(rnd)
            record = {"round": rnd, "loss": loss, "seconds": time.perf_counter() - t0}
            if (rnd + 1) % self.args.eval_every == 0:
                record.update(self.model.evaluate(self.holdout, verbose=0, return_dict=True))
                self.model.save_weights(str(Path(self.args.out) / f"round{rnd + 1:04d}.weights.h5"))
            logger.info("%s", record)
            history.append(record)
        return history


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--wards", default="wards")
    ap.add_argument("--holdout", default="holdout.npz")
    ap.add_argument("--out", default="runs/fed")
    ap.add_argument("--rounds", type=int, default=200)
    ap.add_argument("--per-round", type=int, default=6)
    ap.add_argument("--local-epochs", type=int, default=1)
    ap.add_argument("--eval-every", type=int, default=10)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    Path(args.out).mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(args.seed)
    history = Server(args).run()
    Path(args.out, "history.json").write_text(json.dumps(history, indent=1))


if __name__ == "__main__":
    main()
