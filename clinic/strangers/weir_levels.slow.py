"""Forecast the next six hours of water level from the last two days."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)

HISTORY, HORIZON, BATCH = 48, 6, 64


def simulate(hours=16000):
    t = np.arange(hours)
    level = 2 + 0.5 * np.sin(2 * np.pi * t / 24) + 0.8 * np.sin(2 * np.pi * t / 700)
    rain = np.maximum(rng.normal(-0.8, 1.0, hours), 0)
    level += np.convolve(rain, np.exp(-np.arange(60) / 12), mode="full")[:hours] * 0.2
    temp = 9 + 6 * np.sin(2 * np.pi * t / 8760) + rng.normal(0, 0.7, hours)
    return np.stack([level, rain, temp], axis=1).astype("float32")


def to_windows(values):
    ds = tf.data.Dataset.from_tensor_slices(values)
    ds = ds.window(HISTORY + HORIZON, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(HISTORY + HORIZON, drop_remainder=True))
    ds = ds.shuffle(2000, seed=2)
    ds = ds.map(lambda w: (w[:HISTORY], w[HISTORY:, 0]), num_parallel_calls=2)
    return ds.batch(BATCH).prefetch(1)


series = simulate()
mean, std = series[:12000].mean(0), series[:12000].std(0)
series = (series - mean) / std
train = to_windows(series[:12000])
valid = to_windows(series[12000:13000])

inputs = tf.keras.Input((HISTORY, 3))
x = tf.keras.layers.Conv1D(16, 5, activation="relu")(inputs)
x = tf.keras.layers.Conv1D(16, 5, activation="relu")(x)
x = tf.keras.layers.Flatten()(x)
outputs = tf.keras.layers.Dense(HORIZON)(x)
model = tf.keras.Model(inputs, outputs)
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mae")
model.fit(train, validation_data=valid, epochs=3, verbose=2)
