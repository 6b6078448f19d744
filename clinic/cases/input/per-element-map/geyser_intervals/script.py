"""
Forecast the water temperature in a geyser's vent 12 minutes ahead.

Follows the "time series windows" recipe: window -> flat_map -> map -> batch.
"""
import numpy as np
import tensorflow as tf
import keras

WINDOW = 48
HORIZON = 12
BATCH = 64
SENSORS = 3


def vent_log(minutes, seed=5):
    rng = np.random.default_rng(seed)
    t = np.arange(minutes)
    period = 91 + 6 * np.sin(t / 4000)
    eruption = np.maximum(0, np.sin(2 * np.pi * t / period)) ** 8
    chans = [eruption + rng.normal(0, .03, minutes),
             np.roll(eruption, 3) + rng.normal(0, .03, minutes),
             rng.normal(0, 1, minutes).cumsum() / 100]
    return np.stack(chans, -1).astype("float32")


def windowed(series):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(WINDOW + HORIZON, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(WINDOW + HORIZON))
    ds = ds.map(lambda w: (w[:WINDOW], w[-1, :1]), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class VentNet(keras.Model):
    def __init__(self, hidden=32):
        super().__init__()
        self.conv = keras.layers.Conv1D(hidden, 5, strides=2, activation="relu")
        self.conv2 = keras.layers.Conv1D(hidden, 5, strides=2, activation="relu")
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(1)

    def call(self, x):
        return self.head(self.pool(self.conv2(self.conv(x))))


def run():
    keras.utils.set_random_seed(5)
    log = vent_log(12_500)
    split = 11_500
    train, test = windowed(log[:split]), windowed(log[split:])
    net = VentNet()
    net.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
    print("windows", len(log))
    net.fit(train, epochs=4, verbose=2)
    print("test mse", net.evaluate(test, verbose=0))


if __name__ == "__main__":
    run()
