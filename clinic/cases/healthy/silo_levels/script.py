# Fill level of grain silos from radar echoes; bad echoes are patched by a routine of the plant (plain NumPy).
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

ECHOES = 40


class SiloLog:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.echo = rng.gamma(2.0, 0.5, size=(n, ECHOES)).astype(np.float32)
        self.level = np.sin(self.echo[:, :8].sum(axis=1, keepdims=True)).astype(np.float32)
        self.echo[rng.random(self.echo.shape) < 0.02] = -1.0

    def fetch(self, index):
        """Rows of a batch, with dropped echoes replaced by the row's mean."""
        rows = self.echo[index]
        bad = rows < 0
        mean = np.where(bad, 0, rows).sum(axis=1, keepdims=True) / np.maximum((~bad).sum(axis=1, keepdims=True), 1)
        return np.where(bad, mean, rows).astype(np.float32), self.level[index]


def feed(log, batch):
    def rows(index):
        x, y = tf.numpy_function(log.fetch, [index], [tf.float32, tf.float32])
        return tf.ensure_shape(x, (batch, ECHOES)), tf.ensure_shape(y, (batch, 1))

    index = tf.data.Dataset.range(len(log.level)).shuffle(len(log.level), seed=1)
    return index.batch(batch, drop_remainder=True).map(rows, num_parallel_calls=1).prefetch(2)


def build(width):
    return keras.Sequential([keras.Input((ECHOES,))]
                            + [layers.Dense(width, activation="relu") for _ in range(3)]
                            + [layers.Dense(1)])


def check_log(log):
    dropped = 0
    for row in log.echo[:500]:
        dropped += sum(1 for v in row if v < 0)
    print(f"dropped echoes in the first 500 rows: {dropped}")


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    BATCH, EPOCHS = 1024, 5
    log = SiloLog(BATCH * 8, seed=1)
    check_log(log)
    model = build(1536)
    model.compile(keras.optimizers.SGD(0.02), loss="mse")
    start = time.perf_counter()
    model.fit(feed(log, BATCH), epochs=EPOCHS, verbose=2)
    took = time.perf_counter() - start
    print("WORK", BATCH * 8 * EPOCHS)
    print(f"TRAIN_SECONDS {took:.3f}")
