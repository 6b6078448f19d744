"""Day-ahead load forecast for substations from the previous three days, hour by hour."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

WEEK, HISTORY, DAY = 168, 72, 24


def substation_series(n_stations=24, weeks=14, seed=42):
    rng = np.random.default_rng(seed)
    hours = np.arange(weeks * WEEK)
    daily = np.sin(2 * np.pi * (hours[None] / 24 + rng.random((n_stations, 1))))
    weekly = 0.4 * np.cos(2 * np.pi * hours[None] / WEEK + rng.random((n_stations, 1)))
    temp = np.cumsum(rng.normal(0, 0.05, (n_stations, hours.size)), axis=1)
    load = daily + weekly + 0.3 * temp + rng.normal(0, 0.1, temp.shape)
    return np.stack([load, temp, daily, weekly], axis=-1).astype("float32")


def windows(series, starts):
    x, y = [], []
    for s in starts:
        x.append(series[:, s:s + HISTORY])
        y.append(series[:, s + HISTORY:s + HISTORY + DAY, 0])
    return np.concatenate(x), np.concatenate(y)


class LoadForecaster(keras.Model):
    def __init__(self, units=48, unroll=True):
        super().__init__()
        self.encoder = layers.LSTM(units, return_sequences=True, unroll=unroll)
        self.summary = layers.LSTM(units, unroll=unroll)
        self.hidden = layers.Dense(64, activation="relu")
        self.out = layers.Dense(DAY)

    def call(self, x, training=False):
        return self.out(self.hidden(self.summary(self.encoder(x))))


class Experiment:
    def __init__(self, batch_size=256, epochs=8):
        self.batch_size, self.epochs = batch_size, epochs
        series = substation_series()
        x, y = windows(series, range(0, 1560, 24))
        n_val = batch_size
        self.train = self.pipeline(x[:-n_val], y[:-n_val], True)
        self.val = self.pipeline(x[-n_val:], y[-n_val:], False)
        self.model = LoadForecaster()
        self.model(x[:1])
        self.optimizer = keras.optimizers.Adam(2e-3)
        self.optimizer.build(self.model.trainable_weights)
        self.train_mae = keras.metrics.MeanAbsoluteError()
        self.val_mae = keras.metrics.MeanAbsoluteError()

    def pipeline(self, x, y, training):
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        if training:
            ds = ds.shuffle(len(x))
        return ds.batch(self.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            pred = self.model(x, training=True)
            loss = tf.reduce_mean(tf.square(pred - y))
        weights = self.model.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.train_mae.update_state(y, pred)

    @tf.function
    def val_step(self, x, y):
        self.val_mae.update_state(y, self.model(x, training=False))

    def run(self):
        windows_seen = 0
        for epoch in range(self.epochs):
            self.train_mae.reset_state()
            self.val_mae.reset_state()
            for x, y in self.train:
                self.train_step(x, y)
                windows_seen += self.batch_size
            for x, y in self.val:
                self.val_step(x, y)
            print(f"epoch {epoch + 1}/{self.epochs}"
                  f" mae {self.train_mae.result().numpy():.4f}"
                  f" val_mae {self.val_mae.result().numpy():.4f}")
        return windows_seen


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    begin = time.perf_counter()
    total = Experiment().run()
    spent = time.perf_counter() - begin
    print("WORK", total)
    print("TRAIN_SECONDS", f"{spent:.3f}")
