"""Tremor or no tremor: three-component seismic windows from a volcano observatory."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 32
STEPS_PER_CALL = 12
CALLS = 160


def windows(n=4000, samples=256, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, samples, 3), dtype=np.float32)
    y = rng.integers(0, 2, n).astype(np.float32)
    t = np.arange(samples, dtype=np.float32)
    freq = rng.uniform(0.1, 0.3, n).astype(np.float32)
    x += (0.6 * y[:, None] * np.sin(freq[:, None] * t))[:, :, None]
    return x, y[:, None]


class TremorNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.convs = [
            layers.Conv1D(16, 7, strides=2, activation="relu"),
            layers.Conv1D(32, 5, strides=2, activation="relu"),
            layers.Conv1D(32, 3, strides=2, activation="relu"),
        ]
        self.pool = layers.GlobalAveragePooling1D()
        self.hidden = layers.Dense(32, activation="relu")
        self.out = layers.Dense(1)

    def call(self, x):
        for c in self.convs:
            x = c(x)
        return self.out(self.hidden(self.pool(x)))


def make_trainer(model, optimizer):
    bce = keras.losses.BinaryCrossentropy(from_logits=True)

    def one(x, y):
        with tf.GradientTape() as tape:
            loss = bce(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def several(iterator):
        total = tf.constant(0.0)
        for _ in range(STEPS_PER_CALL):
            x, y = next(iterator)
            total += one(x, y)
        return total / STEPS_PER_CALL

    return several


def main():
    keras.utils.set_random_seed(17)
    x, y = windows()
    ds = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4000).repeat()
          .batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
    model = TremorNet()
    model(x[:1])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    several = make_trainer(model, optimizer)
    iterator = iter(ds)

    t0 = time.perf_counter()
    for call in range(CALLS):
        loss = several(iterator)
        if call % 40 == 0:
            print(f"{call * STEPS_PER_CALL:5d} steps, loss {float(loss):.4f}", flush=True)
    seconds = time.perf_counter() - t0
    print("WORK", CALLS * STEPS_PER_CALL)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
