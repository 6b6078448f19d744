"""Forecast of bridge strain from lorry loads (stacked LSTM)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

WINDOW = 36
SENSORS = 10


def strain_windows(n=1280):
    rng = np.random.default_rng(77)
    raw = rng.standard_normal((n + WINDOW + 1, SENSORS)).astype("float32")
    raw = raw * 0.3 + np.sin(np.arange(len(raw)) / 12)[:, None].astype("float32")
    view = np.lib.stride_tricks.sliding_window_view(raw, WINDOW, axis=0)[:n]
    return np.ascontiguousarray(view.transpose(0, 2, 1)), raw[WINDOW:WINDOW + n, 0]


class StrainForecaster(keras.Model):
    def __init__(self, units, depth):
        super().__init__()
        self.rnn = [
            keras.layers.LSTM(units, return_sequences=i < depth - 1, unroll=True)
            for i in range(depth)
        ]
        self.head = keras.layers.Dense(1)

    def call(self, x, training=False):
        for layer in self.rnn:
            x = layer(x, training=training)
        return tf.squeeze(self.head(x), -1)


def main():
    x, y = strain_windows()
    model = StrainForecaster(units=96, depth=2)
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), loss="mse")
    epochs = 5
    start = time.perf_counter()
    hist = model.fit(x, y, batch_size=64, epochs=epochs, verbose=2)
    stop = time.perf_counter()
    print("rmse", hist.history["loss"][-1] ** 0.5)
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % (stop - start))


if __name__ == "__main__":
    main()
