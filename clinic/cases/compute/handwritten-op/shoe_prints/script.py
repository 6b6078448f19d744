"""Metric learning on shoe prints with batch-hard triplets."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IDS_PER_BATCH = 16
PER_ID = 4


class BatchHardTriplet(keras.losses.Loss):
    def __init__(self, batch, margin=0.3):
        super().__init__(name="batch_hard")
        self.batch = batch
        self.margin = margin

    def call(self, y_true, y_pred):
        ids = tf.reshape(y_true, [-1])
        losses = []
        for i in range(self.batch):
            diff = y_pred - y_pred[i]
            d = tf.sqrt(tf.reduce_sum(diff * diff, axis=1) + 1e-9)
            same = tf.equal(ids, ids[i])
            hardest_pos = tf.reduce_max(tf.where(same, d, tf.zeros_like(d)))
            hardest_neg = tf.reduce_min(tf.where(same, tf.fill(tf.shape(d), 1e6), d))
            losses.append(tf.nn.relu(hardest_pos - hardest_neg + self.margin))
        return tf.stack(losses)


class PrintSampler:
    def __init__(self, n_ids=120, per_id=12, size=28, seed=4):
        rng = np.random.default_rng(seed)
        base = rng.random((n_ids, 1, size, size, 1), dtype=np.float32)
        noise = rng.random((n_ids, per_id, size, size, 1), dtype=np.float32)
        self.images = 0.7 * base + 0.3 * noise
        self.rng = rng

    def epoch(self, steps):
        xs, ys = [], []
        for _ in range(steps):
            ids = self.rng.choice(len(self.images), IDS_PER_BATCH, replace=False)
            for k in ids:
                take = self.rng.choice(self.images.shape[1], PER_ID, replace=False)
                xs.append(self.images[k, take])
                ys.append(np.full(PER_ID, k, np.int32))
        return np.concatenate(xs), np.concatenate(ys)


def embedder(dim=64):
    inp = keras.Input((28, 28, 1))
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(inp)
    x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(dim)(x)
    x = layers.UnitNormalization()(x)
    return keras.Model(inp, x, name="embedder")


def train(epochs=5, steps=100):
    keras.utils.set_random_seed(9)
    batch = IDS_PER_BATCH * PER_ID
    sampler = PrintSampler()
    model = embedder()
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss=BatchHardTriplet(batch))
    done = 0
    t0 = time.time()
    for epoch in range(epochs):
        x, y = sampler.epoch(steps)
        h = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        done += len(x)
        print("epoch", epoch, "loss %.4f" % h.history["loss"][0])
    return done, time.time() - t0


if __name__ == "__main__":
    work, seconds = train()
    print("WORK", work)
    print("TRAIN_SECONDS %.2f" % seconds)
