"""Mid-price direction from a synthetic order book. Windows start anywhere in the session."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import keras
import tensorflow as tf


def session(n, levels, rng):
    mid = np.cumsum(rng.standard_normal(n) * 0.01)
    depth = np.abs(rng.standard_normal((n, levels))) + 0.1
    spread = np.cumsum(np.abs(rng.standard_normal((n, levels))), axis=1) * 0.01
    book = np.concatenate([depth, mid[:, None] + spread, np.gradient(mid)[:, None]], axis=1)
    return book.astype("float32"), mid.astype("float32")


class Desk:
    def __init__(self, book, mid, window, horizon):
        self.book, self.mid = tf.constant(book), tf.constant(mid)
        self.window, self.horizon = window, horizon
        self.net = keras.Sequential([
            keras.layers.Conv1D(24, 5, strides=2, activation="relu"),
            keras.layers.Conv1D(24, 5, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3),
        ])
        self.net.build((None, window, book.shape[1]))
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)
        self.xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def _cut(self, start, lanes):
        begin = start + tf.range(lanes) * self.window // 4
        rows = begin[:, None] + tf.range(self.window)[None, :]
        x = tf.gather(self.book, rows)
        last = rows[:, -1]
        move = tf.gather(self.mid, last + self.horizon) - tf.gather(self.mid, last)
        y = tf.cast(move > 0.02, tf.int32) - tf.cast(move < -0.02, tf.int32) + 1
        return x - tf.reduce_mean(x, axis=1, keepdims=True), y

    @tf.function
    def learn(self, start, lanes=16):
        x, y = self._cut(start, lanes)
        with tf.GradientTape() as tape:
            loss = self.xent(y, self.net(x, training=True))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--ticks", type=int, default=60_000)
    p.add_argument("--updates", type=int, default=60)
    p.add_argument("--window", type=int, default=64)
    return p.parse_args()


def main(a):
    rng = np.random.default_rng(7)
    book, mid = session(a.ticks, 10, rng)
    desk = Desk(book, mid, a.window, horizon=20)
    room = a.ticks - 16 * a.window - 40
    where = rng.integers(0, room, a.updates).tolist()
    total = 0.0
    for n, begin in enumerate(where, 1):
        total += desk.learn(start=tf.constant(begin))
        if n % 30 == 0:
            print(f"{n:5d} updates, loss {float(total) / 30:.4f}")
            total = 0.0


if __name__ == "__main__":
    main(parse())
