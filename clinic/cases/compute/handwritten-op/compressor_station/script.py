# Health score of a gas compressor station: short traces of its sensors, two filter stages, a small head.
import argparse
import time

import numpy as np
import tensorflow as tf


def glorot(rng, *shape):
    return rng.normal(0.0, np.sqrt(2.0 / (shape[-2] + shape[-1])), size=shape).astype(np.float32)


class Taps(tf.Module):
    """A window of `taps` ticks slides along the trace; the same weights everywhere."""

    def __init__(self, taps, channels, out, rng, name):
        super().__init__(name=name)
        self.taps = taps
        self.w = tf.Variable(glorot(rng, taps * channels, out), name="w")
        self.b = tf.Variable(np.zeros(out, np.float32), name="b")

    def __call__(self, x):
        ticks, channels = x.shape[1], x.shape[2]
        places = []
        for t in range(ticks - self.taps + 1):
            window = tf.reshape(x[:, t:t + self.taps], (-1, self.taps * channels))
            places.append(tf.matmul(window, self.w))
        return tf.nn.relu(tf.stack(places, axis=1) + self.b)


class Station(tf.Module):
    def __init__(self, sensors, rng, taps=7, channels=16, width=128):
        super().__init__(name="station")
        self.first = Taps(taps, sensors, channels, rng, "first")
        self.second = Taps(taps, channels, channels, rng, "second")
        self.k1 = tf.Variable(glorot(rng, channels, width), name="k1")
        self.c1 = tf.Variable(np.zeros(width, np.float32), name="c1")
        self.k2 = tf.Variable(glorot(rng, width, 1), name="k2")

    def __call__(self, x):
        h = tf.reduce_mean(self.second(self.first(x)), axis=1)
        return tf.matmul(tf.nn.relu(tf.matmul(h, self.k1) + self.c1), self.k2)[:, 0]


def readings(n, ticks, sensors, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, ticks, sensors), dtype=np.float32)
    mix = rng.normal(size=(sensors,)).astype(np.float32)
    y = np.tanh(x.max(axis=1) @ mix / np.sqrt(sensors))
    return x, y.astype(np.float32)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sensors", type=int, default=8)
    p.add_argument("--ticks", type=int, default=96)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--seconds", type=float, default=10.0, help="length of the training slot")
    a = p.parse_args()

    x, y = readings(a.batch * 24, a.ticks, a.sensors, seed=17)
    station = Station(a.sensors, np.random.default_rng(17))
    rate = tf.constant(0.02)

    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(station(xb) - yb))
        for v, g in zip(station.trainable_variables, tape.gradient(loss, station.trainable_variables)):
            v.assign_sub(rate * g)
        return loss

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(a.batch, drop_remainder=True).cache()
    stream = iter(data.repeat().prefetch(2))
    for _ in range(3):
        loss = step(*next(stream))

    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < a.seconds:
        loss = step(*next(stream))
        steps += 1
        if steps % 200 == 0:
            print(f"{steps} steps, loss {float(loss):.5f}")
    seconds = time.perf_counter() - began
    print("WORK", steps)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
