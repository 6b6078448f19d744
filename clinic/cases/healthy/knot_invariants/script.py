"""Predict the signature of a knot from its other invariants; own training loop."""
import time

import numpy as np
import tensorflow as tf
import keras

FEATURES = 320


def braid_words(n, seed=0):
    rng = np.random.default_rng(seed)
    gens = rng.integers(-4, 5, (n, 24))
    table = np.zeros((n, FEATURES), "float32")
    target = np.zeros(n, "float32")
    for i, word in enumerate(gens):
        total = 0
        for k, g in enumerate(word):
            total += int(g) * (1 if k % 2 else -1)
            table[i, (k * 13 + int(g)) % FEATURES] += 1.0
        target[i] = np.tanh(total / 20)
    return table, target


class Regressor(tf.Module):
    def __init__(self, width=1280):
        super().__init__()
        self.net = keras.Sequential([keras.layers.Input((FEATURES,))])
        for _ in range(3):
            self.net.add(keras.layers.Dense(width, activation="relu"))
        self.net.add(keras.layers.Dense(1))
        self.opt = keras.optimizers.SGD(0.02, momentum=0.9)
        self.mean = keras.metrics.Mean()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x, training=True)[:, 0] - y))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        self.mean.update_state(loss)


def main():
    keras.utils.set_random_seed(0)
    x, y = braid_words(14000)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(14000).batch(768).prefetch(2)
    reg = Regressor()
    epochs = 4
    t0 = time.perf_counter()
    for epoch in range(epochs):
        reg.mean.reset_state()
        for bx, by in ds:
            reg.step(bx, by)
        print(epoch, "mse", reg.mean.result().numpy())
    t1 = time.perf_counter()
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % (t1 - t0))


main()
