"""Learn compact codes of arm movements of stroke patients in rehabilitation.

While training, the spread of the codes seen so far is watched, to notice a collapse."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CODE = 128
BATCH = 256


def movements(n=16384, joints=20, axes=3, seed=31):
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(12, joints * axes)).astype("float32")
    weights = rng.normal(size=(n, 12)).astype("float32")
    return np.tanh(weights @ basis * 0.3 + rng.normal(0, .05, (n, joints * axes))).astype("float32")


class MotionCoder(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.down = keras.Sequential([layers.Dense(192, activation="relu"), layers.Dense(CODE)])
        self.up = keras.Sequential([layers.Dense(192, activation="relu"), layers.Dense(width)])

    def call(self, x):
        z = self.down(x)
        return z, self.up(z)


class SpreadMonitor:
    """Mean and standard deviation of every code dimension over the run so far."""

    def __init__(self, every=10):
        self.every = every
        self.codes = []
        self.calls = 0
        self.alive = []

    def update(self, z):
        self.codes.append(z)
        self.calls += 1
        if self.calls % self.every == 0:
            self.alive.append(self.report())

    def report(self):
        seen = tf.concat(self.codes, axis=0)
        mean = tf.reduce_mean(seen, axis=0)
        var = tf.reduce_mean(tf.square(seen), axis=0) - tf.square(mean)
        return int(tf.reduce_sum(tf.cast(var > 1e-3, tf.int32)))


def make_step(model, optimizer):
    @tf.function(input_signature=[tf.TensorSpec((BATCH, 60), tf.float32)])
    def step(x):
        noisy = x + tf.random.normal(tf.shape(x), stddev=0.05)
        with tf.GradientTape() as tape:
            z, back = model(noisy)
            loss = tf.reduce_mean(tf.square(back - x)) + 1e-4 * tf.reduce_mean(tf.square(z))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, z
    return step


def main(steps=1000):
    keras.utils.set_random_seed(31)
    x = movements()
    stream = iter(tf.data.Dataset.from_tensor_slices(x).cache().shuffle(4096).repeat()
                  .batch(BATCH, drop_remainder=True).prefetch(4))
    model = MotionCoder(x.shape[1])
    model(x[:1])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    step, monitor = make_step(model, optimizer), SpreadMonitor()

    start = time.time()
    for k in range(steps):
        loss, z = step(next(stream))
        monitor.update(z)
        if (k + 1) % 200 == 0:
            print(f"{k + 1}: loss {float(loss):.5f}, live dimensions {monitor.alive[-1]}")
    seconds = time.time() - start
    print("WORK", steps)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
