"""Classify variable stars from irregularly long light curves (time gap, magnitude, error)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CLASSES = ["RRLyr", "Cepheid", "EB", "Mira"]


def synth_curve(kind, rng):
    n = max(40, int(rng.lognormal(np.log(200), 0.45)))
    gaps = rng.exponential(0.8, n)
    t = np.cumsum(gaps)
    period = [0.6, 6.0, 2.5, 40.0][kind] * rng.uniform(0.8, 1.2)
    phase = (t / period + rng.random()) % 1.0
    shape = [
        lambda p: np.exp(-4 * p) - 0.3,
        lambda p: 0.8 * np.sin(2 * np.pi * p) + 0.2 * np.sin(4 * np.pi * p),
        lambda p: -1.0 * (np.abs(p - 0.5) < 0.06) - 0.4 * (np.abs(p) < 0.06),
        lambda p: 1.8 * np.sin(2 * np.pi * p),
    ][kind](phase)
    err = rng.gamma(2.0, 0.03, n)
    return np.stack([gaps, shape + err * rng.standard_normal(n), err], axis=1).astype("float32")


class Survey:
    def __init__(self, size, seed):
        self.rng = np.random.default_rng(seed)
        self.labels = self.rng.integers(0, len(CLASSES), size).astype("int32")
        self.curves = [synth_curve(k, self.rng) for k in self.labels]

    def batches(self, batch_size):
        order = self.rng.permutation(len(self.curves))
        for lo in range(0, len(order) - batch_size + 1, batch_size):
            idx = order[lo:lo + batch_size]
            yield keras.utils.pad_sequences([self.curves[i] for i in idx], dtype="float32", padding="post"), self.labels[idx]


def build_net():
    return keras.Sequential([
        keras.Input((None, 3)),
        layers.Conv1D(32, 9, padding="same", activation="relu"),
        layers.MaxPooling1D(2),
        layers.Conv1D(96, 7, padding="same", activation="relu"),
        layers.MaxPooling1D(2),
        layers.Conv1D(128, 7, padding="same", activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(len(CLASSES)),
    ])


net = build_net()
optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = net(x, training=True)
        loss = cross_entropy(y, logits)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    hits = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), y), tf.int32))
    return loss, hits


def train(survey, epochs, batch_size):
    seen = 0
    for epoch in range(epochs):
        total, hits, count = 0.0, 0, 0
        for x, y in survey.batches(batch_size):
            loss, h = train_step(tf.constant(x), tf.constant(y))
            total += float(loss) * len(y)
            hits += int(h)
            count += len(y)
        seen += count
        print(f"epoch {epoch + 1}: loss {total / count:.3f} acc {hits / count:.3f}", flush=True)
    return seen


if __name__ == "__main__":
    survey = Survey(1408, seed=8)
    t0 = time.perf_counter()
    seen = train(survey, epochs=2, batch_size=64)
    t1 = time.perf_counter()
    print("WORK", seen)
    print("TRAIN_SECONDS", t1 - t0)
