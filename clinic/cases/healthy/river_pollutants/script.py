"""Dilated temporal network for pollutant loads in rivers; the station table is parsed in plain Python first."""
import csv
import io
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

DAYS, SERIES = 256, 8


def station_table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    f = io.StringIO()
    w = csv.writer(f)
    for i in range(n):
        w.writerow([i, round(float(rng.uniform(45, 60)), 3), round(float(rng.gamma(2, 30)), 2)])
    f.seek(0)
    return f


def parse(table):
    stations = []
    for row in csv.reader(table):
        stations.append((int(row[0]), float(row[1]), float(row[2])))
    return stations


def simulate(stations, seed=1):
    rng = np.random.default_rng(seed)
    area = np.array([s[2] for s in stations], np.float32)[:, None, None]
    x = rng.normal(size=(len(stations), DAYS, SERIES)).astype(np.float32)
    kernel = np.exp(-np.arange(20) / 5.0)
    flow = np.apply_along_axis(lambda v: np.convolve(v, kernel)[:DAYS], 1, x[..., 0])
    return x, (flow[..., None] * np.log1p(area) * 0.1 + 0.3 * x[..., 1:2]).astype(np.float32)


class Temporal(tf.keras.Model):
    def __init__(self, width=72):
        super().__init__()
        self.inp = layers.Conv1D(width, 1)
        self.convs = [layers.Conv1D(width, 3, padding="causal", dilation_rate=d, activation="relu")
                      for d in (1, 2, 4, 8, 16)]
        self.out = layers.Conv1D(1, 1)

    def call(self, x):
        h = self.inp(x)
        for c in self.convs:
            h = h + c(h)
        return self.out(h)


class Trainer:
    def __init__(self, x, y, batch):
        self.model, self.opt = Temporal(), tf.keras.optimizers.Adam(1e-3)
        cut = len(x) - 50
        self.train = tf.data.Dataset.from_tensor_slices((x[:cut], y[:cut])).shuffle(cut).batch(batch).prefetch(2)
        self.val = (tf.constant(x[cut:]), tf.constant(y[cut:]))
        self.mean = tf.keras.metrics.Mean()

    @tf.function(reduce_retracing=True)
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x) - y))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        self.mean.update_state(loss)

    def run(self, epochs):
        n = 0
        for e in range(epochs):
            self.mean.reset_state()
            for x, y in self.train:
                self.step(x, y)
                n += int(x.shape[0])
            if e == epochs - 1:
                guess = self.model(self.val[0])
                nse = 1 - tf.reduce_sum((guess - self.val[1]) ** 2) / tf.reduce_sum(self.val[1] ** 2)
                print("validation efficiency", float(nse))
            print("epoch", e, "mse", float(self.mean.result()))
        return n


if __name__ == "__main__":
    x, y = simulate(parse(station_table()))
    trainer = Trainer(x, y, 50)
    t = time.perf_counter()
    n = trainer.run(5)
    print("WORK", n)
    print("TRAIN_SECONDS", time.perf_counter() - t)
