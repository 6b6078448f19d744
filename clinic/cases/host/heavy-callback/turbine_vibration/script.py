"""Fault classifier for gearbox vibration spectra, with TensorBoard logs."""
import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

CLASSES = 6


def spectra(n, bins, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    base = rng.gamma(1.0, 0.2, (n, bins))
    for k in range(1, 5):
        base[np.arange(n), (label + 2) * 17 * k % bins] += 2.0 / k
    return np.log1p(base).astype(np.float32), label.astype(np.int32)


class Experiment:
    def __init__(self, args):
        self.args = args
        self.model = tf.keras.Sequential(
            [tf.keras.Input((args.bins,))]
            + [tf.keras.layers.Dense(w, activation="relu") for w in (256, 256, 128)]
            + [tf.keras.layers.Dense(CLASSES)])
        self.opt = tf.keras.optimizers.Adam(args.lr)
        self.writer = tf.summary.create_file_writer(os.path.join(args.logdir, "train"))
        self.iteration = 0

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        return loss, g

    def log(self, loss, grads):
        with self.writer.as_default(step=self.iteration):
            tf.summary.scalar("loss", loss)
            for v, g in zip(self.model.trainable_variables, grads):
                if len(v.shape) == 2:
                    tf.summary.histogram("weights/" + v.path, v)
                    tf.summary.histogram("gradients/" + v.path, g)

    def epoch(self, ds):
        for x, y in ds:
            loss, grads = self.step(x, y)
            self.log(loss, grads)
            self.iteration += 1
        return float(loss)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bins", type=int, default=384)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--logdir", default=tempfile.mkdtemp())
    args = ap.parse_args()
    x, y = spectra(8192, args.bins, 0)
    xv, yv = spectra(2048, args.bins, 1)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192).batch(args.batch).prefetch(2)
    run = Experiment(args)
    start = time.perf_counter()
    for e in range(args.epochs):
        loss = run.epoch(ds)
        acc = float(tf.reduce_mean(tf.cast(tf.argmax(run.model(xv), 1, tf.int32) == yv, tf.float32)))
        print(f"epoch {e}: loss {loss:.4f} val acc {acc:.3f}")
    run.writer.flush()
    print("WORK", args.epochs * len(x))
    print("TRAIN_SECONDS", time.perf_counter() - start)


if __name__ == "__main__":
    main()
