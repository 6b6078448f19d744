"""Visibility class out of lidar backscatter profiles.

Label smoothing and logit temperature are annealed by a schedule over the whole run.
"""
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PULSES, GATES, CLASSES = 48, 64, 4
BATCH, STEPS = 32, 36


class Knobs(NamedTuple):
    smoothing: float
    temperature: float


class Annealing:
    def __init__(self, total):
        self.total = total

    def __call__(self, step):
        done = step / self.total
        return Knobs(smoothing=0.2 * (1 - done),
                     temperature=1.0 + 2.0 * np.exp(-4 * done).item())


def fog_banks(n, seed=412):
    rng = np.random.default_rng(seed)
    klass = rng.integers(0, CLASSES, n)
    ranges = np.linspace(0.05, 1, GATES)
    depth = (0.5 + klass)[:, None, None] * ranges + rng.normal(0, .1, (n, PULSES, GATES)).cumsum(1) * .2
    return np.exp(-2 * depth).astype("float32"), klass.astype("int32")


def build():
    beam = keras.Input((PULSES, GATES), name="beam")
    x = layers.Dense(48, activation="relu")(beam)
    x = layers.GRU(32)(x)
    return keras.Model(beam, layers.Dense(CLASSES)(x), name="visibility")


class Learner:
    def __init__(self, model):
        self.model = model
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(model.trainable_variables)
        self.knobs_at = Annealing(STEPS)

    @tf.function
    def update(self, x, klass, knobs):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True) / knobs.temperature
            target = tf.one_hot(klass, CLASSES) * (1 - knobs.smoothing) + knobs.smoothing / CLASSES
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def train(self, data):
        losses = []
        for step, (x, klass) in enumerate(data):
            knobs = self.knobs_at(step)
            losses.append(self.update(x, klass, knobs))
        return [round(float(v), 4) for v in losses[::9]]


if __name__ == "__main__":
    keras.utils.set_random_seed(412)
    ds = tf.data.Dataset.from_tensor_slices(fog_banks(BATCH * STEPS)).batch(BATCH).prefetch(2)
    print("losses", Learner(build()).train(ds))
