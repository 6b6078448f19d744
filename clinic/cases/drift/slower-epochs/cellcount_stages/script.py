"""Counts cells in microscope crops; a custom loop, each epoch with fresh stain and focus jitter, validated and checkpointed."""
import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def microscope(n, size=64, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 12, n)
    grid = np.mgrid[:size, :size]
    images = np.empty((n, size, size, 3), "float32")
    for i, c in enumerate(counts):
        centers = rng.uniform(4, size - 4, (c, 2, 1, 1))
        blobs = np.exp(-((grid - centers) ** 2).sum(1) / 8.0).sum(0) if c else np.zeros((size, size))
        images[i] = 0.8 - 0.5 * blobs[..., None] * (0.5, 1.0, 0.4)
    return images, counts.astype("float32")[:, None]


def jitter(images, counts):
    images = tf.image.random_flip_left_right(images)
    images = tf.image.random_hue(images, 0.03)
    images = tf.image.random_saturation(images, 0.9, 1.1)
    blurred = tf.nn.avg_pool2d(images, 3, 1, "SAME")
    mix = tf.random.uniform([tf.shape(images)[0], 1, 1, 1])
    return tf.clip_by_value(images * (1 - mix) + blurred * mix, 0.0, 1.0), counts


def build():
    return keras.Sequential([
        layers.Input((64, 64, 3)),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(1),
    ])


class Experiment:
    def __init__(self, folder, batch):
        self.model = build()
        self.optimizer = keras.optimizers.Adam(2e-3)
        self.train_error = keras.metrics.Mean()
        self.val_error = keras.metrics.MeanAbsoluteError()
        x, y = microscope(768)
        self.train_ds = tf.data.Dataset.from_tensor_slices((x[:640], y[:640])).shuffle(640).batch(batch)
        self.val_ds = tf.data.Dataset.from_tensor_slices((x[640:], y[640:])).batch(64).cache()
        self.path = os.path.join(folder, "last.weights.h5")

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self.model(x, training=True)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.train_error.update_state(loss)

    @tf.function
    def val_step(self, x, y):
        self.val_error.update_state(y, self.model(x, training=False))

    def epoch(self, number):
        self.train_error.reset_state()
        self.val_error.reset_state()
        self.train_ds = self.train_ds.map(jitter, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
        for x, y in self.train_ds:
            self.train_step(x, y)
        for x, y in self.val_ds:
            self.val_step(x, y)
        self.model.save_weights(self.path)
        print(f"epoch {number}: mse {float(self.train_error.result()):.3f} val mae {float(self.val_error.result()):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Experiment(folder, args.batch)
        for e in range(args.epochs):
            run.epoch(e)
