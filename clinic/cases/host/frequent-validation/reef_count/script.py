"""Counting fish in sonar slices."""
import argparse
import time

import numpy as np
import tensorflow as tf


def sonar(n, seed):
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 12, n)
    img = rng.random((n, 24, 24, 1), dtype=np.float32) * 0.3
    for i in range(n):
        r = rng.integers(0, 24, (count[i], 2))
        img[i, r[:, 0], r[:, 1], 0] = 1.0
    return img, count.astype("float32")


def conv_net():
    i = tf.keras.Input((24, 24, 1))
    x = tf.keras.layers.Conv2D(16, 3, activation="relu")(i)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(i, tf.keras.layers.Dense(1)(x))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=28)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=64)
args = parser.parse_args()

tf.keras.utils.set_random_seed(44)
train = sonar(4096, 1)
hold = sonar(6000, 2)
train_ds = tf.data.Dataset.from_tensor_slices(train).shuffle(4096, seed=5).repeat().batch(args.batch).prefetch(2)
hold_ds = tf.data.Dataset.from_tensor_slices(hold).batch(args.batch).prefetch(2)

model = conv_net()
model.compile("adam", "mse", metrics=["mae"])
t0 = time.time()
model.fit(
    train_ds,
    steps_per_epoch=args.steps,
    epochs=args.epochs,
    validation_data=hold_ds,
    verbose=2,
)
print("total", round(time.time() - t0, 2))
