"""Denoising autoencoder on vibration windows of a wind turbine; the residuals' distribution gives the alarm threshold."""
import argparse

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=260)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--window", type=int, default=256)
    p.add_argument("--channels", type=int, default=24)
    return p.parse_args()


def signal(n, channels, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None] / 50.0
    f = rng.uniform(0.2, 3.0, size=(1, channels))
    return (np.sin(t * f) + 0.3 * np.sin(3.1 * t * f)).astype("float32")


class ResidualWatch:
    """Collects the reconstruction errors seen in training, for the alarm threshold at the end."""

    def __init__(self):
        self.residuals = []
        self.means = []

    def update(self, residual):
        self.residuals.append(residual)
        self.means.append(tf.reduce_mean(residual))

    def threshold(self):
        last = tf.concat([tf.reshape(m, [1]) for m in self.means[-100:]], 0)
        return float(tf.reduce_mean(last) + 3 * tf.math.reduce_std(last))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = keras.Sequential([
            layers.Input((args.window // 8, 8 * args.channels)),
            layers.Dense(48, activation="relu"),
            layers.Dense(16),
            layers.Dense(8 * args.channels),
        ])
        self.optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        self.watch = ResidualWatch()

    @tf.function
    def step(self, clean):
        folded = tf.reshape(clean, [-1, self.args.window // 8, 8 * self.args.channels])
        with tf.GradientTape() as tape:
            residual = tf.math.squared_difference(self.model(folded, training=True), folded)
            loss = tf.reduce_mean(residual)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, residual

    def run(self, windows):
        for i, batch in enumerate(windows.take(self.args.steps)):
            loss, residual = self.step(batch)
            self.watch.update(residual)
            if i % 40 == 0:
                print(f"{i:5d} mse {float(loss):.5f}")
        print("alarm above", self.watch.threshold())


def main():
    args = parse()
    data = tf.constant(signal(args.batch * args.window * 6, args.channels).reshape(-1, args.window, args.channels))
    windows = (tf.data.Dataset.from_tensor_slices(data).batch(args.batch, drop_remainder=True)
               .cache().repeat().prefetch(2))
    Trainer(args).run(windows)


if __name__ == "__main__":
    main()
