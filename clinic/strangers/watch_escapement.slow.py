"""Beat error of watch movements; warm-up and cosine decay of the rate."""
import math

import numpy as np
import tensorflow as tf
import keras

TOTAL = 70


class Cosine:
    def __init__(self, peak, warm, total):
        self.peak, self.warm, self.total = peak, warm, total

    def at(self, step):
        if step < self.warm:
            return self.peak * (step + 1) / self.warm
        part = (step - self.warm) / max(1, self.total - self.warm)
        return 0.5 * self.peak * (1 + math.cos(math.pi * part))


def movement_net():
    ticks = keras.Input((60, 4))
    x = keras.layers.Conv1D(24, 5, activation="relu")(ticks)
    x = keras.layers.Conv1D(24, 5, activation="relu")(x)
    x = keras.layers.GlobalMaxPooling1D()(x)
    return keras.Model(ticks, keras.layers.Dense(1)(x))


class Workshop(tf.Module):
    def __init__(self, schedule):
        super().__init__()
        self.net = movement_net()
        self.schedule = schedule
        self.velocity = [tf.Variable(tf.zeros_like(w), trainable=False) for w in self.net.trainable_variables]

    @tf.function
    def adjust(self, ticks, beat, rate):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(ticks, training=True) - beat))
        weights = self.net.trainable_variables
        for weight, speed, grad in zip(weights, self.velocity, tape.gradient(loss, weights)):
            speed.assign(0.9 * speed + grad)
            weight.assign_sub(rate * speed)
        return loss

    def train(self, batches):
        loss = None
        for step, (ticks, beat) in enumerate(batches):
            loss = self.adjust(ticks, beat, self.schedule.at(step))
        return loss


def bench(count):
    rng = np.random.default_rng(2)
    ticks = rng.normal(size=(count, 60, 4)).astype("float32")
    return ticks, ticks[:, :6, 0].mean(axis=1, keepdims=True)


keras.utils.set_random_seed(2)
data = tf.data.Dataset.from_tensor_slices(bench(1024)).batch(32).cache().repeat().take(TOTAL).prefetch(2)
workshop = Workshop(Cosine(0.02, 8, TOTAL))
print("beat error", float(workshop.train(data)))
