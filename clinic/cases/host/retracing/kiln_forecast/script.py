import math

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(77)


def kiln_log(n=6000):
    t = np.arange(n)
    temp = 900 + 50 * np.sin(t / 40) + np.random.default_rng(7).normal(0, 4, n)
    return ((temp - 900) / 50).astype("float32")


def windows(series, past=36):
    x = np.lib.stride_tricks.sliding_window_view(series, past)[:-1]
    return x[..., None].copy(), series[past:, None]


class WarmCosine:
    def __init__(self, peak, warm, total):
        self.peak, self.warm, self.total = peak, warm, total

    def __call__(self, step):
        if step < self.warm:
            return self.peak * (step + 1) / self.warm
        done = (step - self.warm) / (self.total - self.warm)
        return 0.5 * self.peak * (1 + math.cos(math.pi * done))


class Forecaster:
    def __init__(self):
        self.net = keras.Sequential([
            keras.Input((36, 1)),
            keras.layers.Conv1D(16, 3, padding="causal", activation="relu"),
            keras.layers.Conv1D(16, 3, padding="causal", dilation_rate=2, activation="relu"),
            keras.layers.Conv1D(16, 3, padding="causal", dilation_rate=4, activation="relu"),
            keras.layers.Flatten(), keras.layers.Dense(1)])
        self.momentum = [tf.Variable(tf.zeros_like(v)) for v in self.net.trainable_variables]

    @tf.function
    def descend(self, x, y, rate):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.net(x, training=True) - y) ** 2)
        for w, m, g in zip(self.net.trainable_variables, self.momentum,
                           tape.gradient(loss, self.net.trainable_variables)):
            m.assign(0.9 * m + g)
            w.assign_sub(rate * m)
        return loss


x, y = windows(kiln_log())
flow = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=1).repeat().batch(64).prefetch(2)
total = 100
schedule = WarmCosine(0.02, 10, total)
model = Forecaster()
for step, (a, b) in enumerate(flow.take(total)):
    loss = model.descend(a, b, schedule(step))
print("mse", round(float(loss), 4))
