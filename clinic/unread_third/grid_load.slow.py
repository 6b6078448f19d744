# Day-ahead forecasting of the regional grid load, one week in, one day out.
import numpy as np
import tensorflow as tf
from tensorflow import keras

PAST = 168
AHEAD = 24
BATCH = 256
HOURS = 24 * 365 * 6


def synth_load():
    rng = np.random.default_rng(1)
    h = np.arange(HOURS)
    daily = np.sin(2 * np.pi * h / 24)
    weekly = 0.4 * np.sin(2 * np.pi * h / 168)
    yearly = 0.8 * np.cos(2 * np.pi * h / 8760)
    temp = yearly + 0.3 * daily + 0.1 * rng.normal(size=HOURS)
    load = daily + weekly + yearly + 0.05 * rng.normal(size=HOURS)
    wind = rng.gamma(2.0, 0.3, HOURS)
    table = np.stack([load, temp, wind, daily, weekly], axis=1)
    return ((table - table.mean(0)) / table.std(0)).astype("float32")


def windows(table):
    def gen():
        starts = np.random.permutation(len(table) - PAST - AHEAD + 1)
        for s in starts:
            past = table[s:s + PAST]
            ahead = table[s + PAST:s + PAST + AHEAD, 0]
            yield past, ahead

    ds = tf.data.Dataset.from_generator(
        gen,
        output_signature=(
            tf.TensorSpec((PAST, table.shape[1]), tf.float32),
            tf.TensorSpec((AHEAD,), tf.float32),
        ))
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def build(n_features):
    inp = keras.Input((PAST, n_features))
    x = inp
    for d in (1, 2, 4, 8):
        y = keras.layers.Conv1D(32, 3, padding="causal", dilation_rate=d, activation="relu")(x)
        x = keras.layers.Concatenate()([x, y]) if d == 1 else keras.layers.Add()([x, y])
        x = keras.layers.Conv1D(32, 1)(x)
    x = keras.layers.Lambda(lambda z: z[:, -1, :], output_shape=(32,))(x)
    return keras.Model(inp, keras.layers.Dense(AHEAD)(x))


table = synth_load()
split = int(0.85 * HOURS)
train_ds = windows(table[:split])
test_ds = windows(table[split:])

model = build(table.shape[1])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
model.fit(train_ds, epochs=10, verbose=2)
print("test mae", model.evaluate(test_ds, verbose=0))
