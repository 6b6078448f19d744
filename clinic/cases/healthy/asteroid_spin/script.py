"""Rotation period of asteroids from their folded light curves (1-D convolutions), with a line every few hundred steps."""
import time

import numpy as np
import tensorflow as tf

POINTS = 256


def light_curves(n):
    rng = np.random.default_rng(6)
    t = np.sort(rng.uniform(0, 1, size=(n, POINTS)), axis=1)
    period = rng.uniform(0.05, 0.5, size=(n, 1))
    mag = np.sin(4 * np.pi * t / period) + 0.3 * np.sin(2 * np.pi * t / period + 1)
    x = np.stack([mag + 0.2 * rng.normal(size=mag.shape), t], -1)
    return x.astype(np.float32), np.log(period).astype(np.float32)


class Ticker(tf.keras.callbacks.Callback):
    def __init__(self, every):
        super().__init__()
        self.every = every
        self.count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count % self.every == 0:
            print(f"   after {self.count} batches: loss {logs['loss']:.4f}")


def spin_net():
    net = tf.keras.Sequential(name="spin")
    net.add(tf.keras.layers.Input((POINTS, 2)))
    for filters, stride in ((64, 1), (96, 2), (96, 2), (128, 2)):
        net.add(tf.keras.layers.Conv1D(filters, 7, strides=stride, padding="same", activation="relu"))
    net.add(tf.keras.layers.GlobalAveragePooling1D())
    net.add(tf.keras.layers.Dense(64, activation="relu"))
    net.add(tf.keras.layers.Dense(1))
    net.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return net


curves, period = light_curves(4800)
ds = tf.data.Dataset.from_tensor_slices((curves, period)).shuffle(4800).batch(64).prefetch(tf.data.AUTOTUNE)
net = spin_net()
start = time.perf_counter()
net.fit(ds, epochs=3, shuffle=False, verbose=2, callbacks=[Ticker(50), tf.keras.callbacks.TerminateOnNaN()])
print("WORK", 3 * len(curves))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
