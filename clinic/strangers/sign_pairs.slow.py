"""Signature verification: shared embedding, pairs drawn per writer, contrastive loss."""
import time
from collections import defaultdict

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE, EMBED, MARGIN = 28, 32, 1.0


class SignatureArchive:
    """Scans per writer, kept the way the scanner export delivers them (one array each)."""

    def __init__(self, writers=60, scans=12, seed=33):
        self.rng = np.random.default_rng(seed)
        self.scans = defaultdict(list)
        for w in range(writers):
            style = self.rng.normal(size=(SIDE, SIDE))
            for _ in range(scans):
                scan = 0.7 * style + 0.5 * self.rng.normal(size=(SIDE, SIDE))
                self.scans[w].append(scan.astype("float32"))

    def pair(self, same):
        w = int(self.rng.integers(len(self.scans)))
        v = w if same else (w + 1 + int(self.rng.integers(len(self.scans) - 1))) % len(self.scans)
        i, j = self.rng.integers(len(self.scans[w]), size=2)
        return self.scans[w][i], self.scans[v][j]

    def draw(self, count):
        same = self.rng.random(count) < 0.5
        left, right = zip(*(self.pair(s) for s in same))
        return list(left), list(right), same.astype("float32")


def on_device(*fields):
    return [tf.convert_to_tensor(f, dtype=tf.float32) for f in fields]


class Verifier:
    def __init__(self, lr=1e-3):
        self.embed = keras.Sequential([
            layers.Input((SIDE, SIDE)),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(EMBED),
        ])
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.embed.trainable_variables)

    @tf.function
    def update(self, left, right, same):
        with tf.GradientTape() as tape:
            gap = self.embed(left, training=True) - self.embed(right, training=True)
            d = tf.sqrt(tf.reduce_sum(tf.square(gap), 1) + 1e-8)
            apart = tf.square(tf.maximum(MARGIN - d, 0.0))
            loss = tf.reduce_mean(same * tf.square(d) + (1.0 - same) * apart)
        grads = tape.gradient(loss, self.embed.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.embed.trainable_variables))
        return loss


def main(steps=260, pairs=48):
    archive, verifier = SignatureArchive(), Verifier()
    running = keras.metrics.Mean()
    t0 = time.time()
    for step in range(1, steps + 1):
        batch = on_device(*archive.draw(pairs))
        loss = verifier.update(*batch)
        if step % 65 == 0:
            running.update_state(loss)
            print("step %d  loss %.4f" % (step, float(loss)))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0), "mean %.4f" % float(running.result()))


if __name__ == "__main__":
    main()
