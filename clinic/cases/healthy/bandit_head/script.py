"""Tiny click-probability head for a contextual bandit, refitted on a day of logs (2.1 million rows, 12 features)."""
import time

import numpy as np
import tensorflow as tf

BATCH, STEPS, FEATURES = 8192, 256, 12


def day_of_logs(seed=0):
    g = np.random.default_rng(seed)
    x = g.standard_normal((STEPS, BATCH, FEATURES), dtype=np.float32)
    w = g.standard_normal((FEATURES, 1), dtype=np.float32) * 0.4
    p = 1 / (1 + np.exp(-(x @ w + 0.3 * x[..., :1] * x[..., 1:2])))
    return x, (g.random(p.shape, dtype=np.float32) < p).astype(np.float32)


def head():
    return tf.keras.Sequential([
        tf.keras.Input((FEATURES,)),
        tf.keras.layers.Dense(16, activation="tanh"),
        tf.keras.layers.Dense(1),
    ])


class Clock(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        print(f"pass {epoch} loss {logs['loss']:.4f} {(time.perf_counter() - self.t0) / STEPS * 1e3:.3f} ms/step")


ds = (tf.data.Dataset.from_tensor_slices(day_of_logs())   # one element is a whole minibatch
      .shuffle(256).prefetch(32))
model = head()
model.compile(tf.keras.optimizers.SGD(0.1), tf.keras.losses.BinaryCrossentropy(from_logits=True),
              steps_per_execution=64)
model.fit(ds, epochs=20, verbose=0, callbacks=[Clock()])
