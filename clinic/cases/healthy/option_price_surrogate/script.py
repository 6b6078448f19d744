"""A neural surrogate for European option prices: learns Black-Scholes, then prints a smile."""
import math
import time

import keras
import numpy as np
import tensorflow as tf


def normal_cdf(x):
    return np.array([0.5 * (1.0 + math.erf(v / math.sqrt(2.0))) for v in x])


def black_scholes(moneyness, sigma, tau, rate):
    vol = sigma * np.sqrt(tau)
    d1 = (np.log(moneyness) + (rate + 0.5 * sigma**2) * tau) / vol
    return moneyness * normal_cdf(d1) - np.exp(-rate * tau) * normal_cdf(d1 - vol)


class QuoteBook(keras.utils.PyDataset):
    """Quotes held in memory; a batch is a slice of a permutation."""

    def __init__(self, quotes, prices, batch_size, seed=0):
        super().__init__()
        self.quotes, self.prices = quotes, prices
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.quotes) // self.batch_size

    def __getitem__(self, i):
        pick = self.order[i * self.batch_size : (i + 1) * self.batch_size]
        return self.quotes[pick], self.prices[pick]

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.quotes))


def draw_quotes(n, seed=9):
    rng = np.random.default_rng(seed)
    m = rng.uniform(0.6, 1.5, n)
    sigma = rng.uniform(0.08, 0.6, n)
    tau = rng.uniform(0.05, 2.0, n)
    rate = rng.uniform(0.0, 0.05, n)
    quotes = np.stack([m - 1.0, sigma * 2, tau, rate * 20], axis=1).astype("float32")
    return quotes, black_scholes(m, sigma, tau, rate).astype("float32")[:, None]


def surrogate(width=1024, depth=5):
    net = keras.Sequential([keras.Input((4,))])
    for _ in range(depth):
        net.add(keras.layers.Dense(width, activation="relu", kernel_initializer="he_normal"))
    net.add(keras.layers.Dense(1))
    return net


def train(net, book, epochs):
    optimizer = keras.optimizers.Adam(3e-4)
    optimizer.build(net.trainable_variables)
    total = tf.Variable(0.0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
        grads = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(grads, net.trainable_variables))
        total.assign_add(loss)

    done = 0
    for epoch in range(epochs):
        total.assign(0.0)
        for i in range(len(book)):
            x, y = book[i]
            step(tf.convert_to_tensor(x), tf.convert_to_tensor(y))
            done += len(x)
        book.on_epoch_end()
        print("epoch %d rmse %.4f" % (epoch + 1, math.sqrt(total.numpy() / len(book))))
    return done


if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    quotes, prices = draw_quotes(12 * 1024)
    net = surrogate()
    begin = time.perf_counter()
    samples = train(net, QuoteBook(quotes, prices, 1024), epochs=4)
    seconds = time.perf_counter() - begin

    strip = np.linspace(0.7, 1.4, 15)
    grid = np.stack([strip - 1, np.full(15, 0.5), np.full(15, 0.5), np.full(15, 0.4)], axis=1)
    for m, p in zip(strip, net(grid.astype("float32")).numpy()[:, 0]):
        print("moneyness %.2f price %.4f" % (m, p))
    print("WORK", samples)
    print("TRAIN_SECONDS %.3f" % seconds)
