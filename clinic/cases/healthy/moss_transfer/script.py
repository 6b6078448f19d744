"""Transfer learning in two phases: base frozen, then everything with a small rate (so compile twice)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras.losses import SparseCategoricalCrossentropy as CE
from tensorflow.keras import Input, Model, Sequential, layers, optimizers, utils

utils.set_random_seed(38)
S = 40


def moss(n, kinds, seed):
    r = np.random.default_rng(seed)
    k = r.integers(0, kinds, n)
    fy, fx = 1 + k % 3, 1 + k // 3
    g = np.arange(S) / S * 2 * np.pi
    wave = np.sin(fy[:, None, None] * g[None, :, None] * 2 + fx[:, None, None] * g[None, None] * 2 + r.uniform(0, 6, (n, 1, 1)))
    return (wave[..., None] + 0.6 * r.normal(size=(n, S, S, 3))).astype("float32"), k


def base():
    return Sequential([
        Input((S, S, 3)),
        layers.Conv2D(32, 3, activation="relu", padding="same"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu", padding="same"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu", padding="same"), layers.GlobalAveragePooling2D()], name="base")


def ds(x, y, b=64):
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=0).batch(b).prefetch(2)


t0 = time.time()
b = base()
j = Input((S, S, 3))
big = Model(j, layers.Dense(9)(b(j)))
x, y = moss(1600, 9, 1)
big.compile("adam", CE(from_logits=True))
big.fit(ds(x, y), epochs=2, verbose=2)

xs, ys = moss(640, 4, 2)
b.trainable = False
i = Input((S, S, 3))
small = Model(i, layers.Dense(4)(layers.Dropout(0.3)(b(i, training=False))))
small.compile(optimizers.Adam(1e-3), CE(from_logits=True), metrics=["accuracy"])
small.fit(ds(xs, ys), epochs=3, verbose=2)
b.trainable = True
small.compile(optimizers.Adam(1e-4), CE(from_logits=True), metrics=["accuracy"])
small.fit(ds(xs, ys), epochs=3, verbose=2)
print(small.evaluate(ds(xs, ys), verbose=0))
print("WORK", 2 * 1600 + 6 * 640)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
