"""Contrastive pre-training on image patches, subclassed keras.Model with its own train_step."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 48


def patches(n, seed=0):
    r = np.random.default_rng(seed)
    return r.random((n, 16, 16, 3), dtype=np.float32)


def contrastive(za, zb, temperature):
    """Each view must find its partner among all other views of the batch."""
    z = tf.math.l2_normalize(tf.concat([za, zb], 0), axis=1)
    total = 0.0
    for i in range(2 * BATCH):
        partner = (i + BATCH) % (2 * BATCH)
        sim = tf.reduce_sum(z[i] * z, axis=1) / temperature
        others = tf.concat([sim[:i], sim[i + 1:]], 0)
        total += tf.reduce_logsumexp(others) - sim[partner]
    return total / (2 * BATCH)


class SimCLR(keras.Model):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature
        self.backbone = keras.Sequential([
            layers.Input((16, 16, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(32),
        ])
        self.augment = keras.Sequential([layers.RandomFlip(), layers.GaussianNoise(0.1)])
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, x):
        a, b = self.augment(x, training=True), self.augment(x, training=True)
        with tf.GradientTape() as tape:
            loss = contrastive(self.backbone(a, training=True), self.backbone(b, training=True), self.temperature)
        w = self.backbone.trainable_weights
        self.optimizer.apply(tape.gradient(loss, w), w)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def main():
    x = patches(BATCH * 60)
    model = SimCLR()
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    t0 = time.perf_counter()
    model.fit(tf.data.Dataset.from_tensor_slices(x).batch(BATCH, drop_remainder=True).cache().prefetch(2),
              epochs=3, verbose=2)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
