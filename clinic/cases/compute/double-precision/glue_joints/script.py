"""Ultrasound of glue joints: mixture-of-experts regression with a subclassed train_step."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.backend.set_floatx("float64")
keras.utils.set_random_seed(19)


class Experts(keras.Model):
    def __init__(self, count=4, width=256):
        super().__init__()
        self.gate = keras.layers.Dense(count, activation="softmax")
        self.first = [keras.layers.Dense(width, activation="relu") for _ in range(count)]
        self.second = [keras.layers.Dense(width, activation="relu") for _ in range(count)]
        self.last = [keras.layers.Dense(1) for _ in range(count)]
        self.balance = keras.metrics.Mean(name="balance")

    def call(self, x):
        g = self.gate(x)
        y = tf.concat([c(b(a(x))) for a, b, c in zip(self.first, self.second, self.last)], -1)
        return tf.reduce_sum(g * y, -1), g

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            guess, g = self(x, training=True)
            usage = tf.reduce_mean(g, 0)
            uneven = tf.reduce_sum(tf.square(usage))
            loss = tf.reduce_mean(tf.square(tf.cast(y, guess.dtype) - guess)) + 0.01 * uneven
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.balance.update_state(uneven)
        return {"objective": loss, "balance": self.balance.result()}


rng = np.random.default_rng(19)
echo = rng.normal(size=(12800, 192)).cumsum(1) / 8
strength = np.tanh(echo[:, 50] - echo[:, 120]) + 0.5 * np.sin(echo[:, 180])
model = Experts()
model.compile(optimizer=keras.optimizers.Adam(1e-3))
t0 = time.time()
model.fit(echo, strength, batch_size=256, epochs=12, verbose=2)
print("WORK", 12 * len(echo))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
