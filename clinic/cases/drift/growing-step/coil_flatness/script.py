"""Actuator settings of a cold rolling mill from shape-roll readings.

Residuals are scaled by how widely each actuator's error has spread so far, so that no single one rules the loss.
"""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

READINGS, ACTUATORS = 48, 32


class Mill:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.gain = self.rng.normal(0, 0.3, size=(READINGS, ACTUATORS)).astype(np.float32)
        self.loudness = self.rng.uniform(0.2, 3.0, ACTUATORS).astype(np.float32)

    def strips(self, n):
        x = self.rng.standard_normal((n, READINGS), dtype=np.float32)
        y = np.tanh(x @ self.gain) * self.loudness
        return x, y + 0.05 * self.loudness * self.rng.standard_normal(y.shape, dtype=np.float32)


class Spread:
    """Standard deviation of the residuals of every strip seen."""

    def __init__(self):
        self.residuals = []

    def update(self, residual):
        self.residuals.append(residual)

    def scale(self):
        everything = np.concatenate(self.residuals)
        return (everything.std(axis=0) + 1e-3).astype(np.float32)


class Trainer:
    def __init__(self, batch):
        self.batch = batch
        self.model = keras.Sequential([
            keras.Input((READINGS,)),
            layers.Dense(320, activation="relu"),
            layers.Dense(320, activation="relu"),
            layers.Dense(ACTUATORS),
        ])
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)
        self.spread = Spread()

    @tf.function
    def step(self, x, y, scale):
        with tf.GradientTape() as tape:
            residual = y - self.model(x, training=True)
            loss = tf.reduce_mean(tf.square(residual / scale))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, residual

    def run(self, data, steps):
        scale = np.ones(ACTUATORS, np.float32)
        for i, (x, y) in enumerate(data.take(steps), 1):
            loss, residual = self.step(x, y, scale)
            self.spread.update(residual.numpy())
            scale = self.spread.scale()
            if i % 100 == 0:
                print(f"strip batch {i}: loss {float(loss):.4f}")


def main():
    keras.utils.set_random_seed(9)
    batch, steps = 256, 600
    x, y = Mill(9).strips(batch * 80)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    data = data.cache().repeat().prefetch(2)
    trainer = Trainer(batch)
    began = time.perf_counter()
    trainer.run(data, steps)
    seconds = time.perf_counter() - began
    print("WORK", steps)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
