# Day-ahead load for 370 feeders, hourly. Train to June, backtest July-August, submit the sMAPE.
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers as L
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LOOKBACK = 168
HORIZON = 24
BATCH = 1024
EPOCHS = 12
SEED = 2024

keras.utils.set_random_seed(SEED)

load = pd.read_parquet("input/feeders_hourly.parquet")          # index: timestamp, columns: feeder ids
load = load.asfreq("h").interpolate(limit=6).fillna(0.0)
stamp = load.index

calendar = np.stack([
    np.sin(2 * np.pi * stamp.hour / 24), np.cos(2 * np.pi * stamp.hour / 24),
    np.sin(2 * np.pi * stamp.dayofweek / 7), np.cos(2 * np.pi * stamp.dayofweek / 7),
    np.sin(2 * np.pi * stamp.dayofyear / 366), np.cos(2 * np.pi * stamp.dayofyear / 366),
    (stamp.dayofweek >= 5).astype(float),
], axis=1).astype("float32")

split = stamp.get_loc(pd.Timestamp("2014-06-01"))
test0 = stamp.get_loc(pd.Timestamp("2014-07-01"))
raw = load.to_numpy("float32").T                                # (feeders, hours)
mean = raw[:, :split].mean(1, keepdims=True)
std = raw[:, :split].std(1, keepdims=True) + 1e-3
series = (raw - mean) / std
n_feeders, n_hours = series.shape
print(f"{n_feeders} feeders x {n_hours} hours, test from {stamp[test0]}")

flat = tf.constant(series.reshape(-1))
cal = tf.constant(calendar)


def windows(lo, hi, training):
    """One sample = the LOOKBACK hours before t, and the load at t."""
    t = np.arange(lo + LOOKBACK, hi)
    f = np.arange(n_feeders)
    pairs = np.stack(np.meshgrid(f, t, indexing="ij"), -1).reshape(-1, 2).astype("int32")

    def fetch(p):
        hours = p[:, 1:] - LOOKBACK + tf.range(LOOKBACK)[None]
        past = tf.gather(flat, p[:, :1] * n_hours + hours)[..., None]
        x = tf.concat([past, tf.gather(cal, hours + 1)], -1)
        return x, tf.gather(flat, p[:, 0] * n_hours + p[:, 1])

    ds = tf.data.Dataset.from_tensor_slices(pairs)
    if training:
        rng = np.random.default_rng(SEED)
        ds = tf.data.Dataset.from_tensor_slices(pairs[rng.permutation(len(pairs))])
        ds = ds.shuffle(100_000)
    return (ds.batch(BATCH, drop_remainder=training)
            .map(fetch, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE))


train_ds = windows(0, split, True)
valid_ds = windows(split, test0, False)

inp = L.Input((LOOKBACK, 1 + calendar.shape[1]))
x = L.Conv1D(64, 3, padding="causal", activation="relu")(inp)
for d in (2, 4, 8, 16, 32):
    h = L.Conv1D(64, 3, dilation_rate=d, padding="causal", activation="relu")(x)
    h = L.Conv1D(64, 1)(h)
    x = L.LayerNormalization()(L.Add()([x, h]))
x = L.Concatenate()([L.GlobalAveragePooling1D()(x), L.Cropping1D((LOOKBACK - 1, 0))(x)[:, 0]])
x = L.Dense(128, activation="relu")(x)
model = keras.Model(inp, L.Dense(1)(x)[:, 0])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=keras.losses.Huber(), metrics=["mae"])
model.summary()

hist = model.fit(train_ds, validation_data=valid_ds, epochs=EPOCHS, verbose=2, callbacks=[
    keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.4),
    keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True),
    keras.callbacks.ModelCheckpoint("tcn_best.keras", save_best_only=True),
])

plt.plot(hist.history["loss"], label="train")
plt.plot(hist.history["val_loss"], label="valid")
plt.legend()
plt.savefig("loss.png")


def day_ahead(starts):
    """Roll the one-hour model forward from every start, all feeders at once, on its own forecasts."""
    hours = starts[:, None] + np.arange(-LOOKBACK, 0)
    past = series[:, hours].reshape(-1, LOOKBACK)               # (feeders * starts, LOOKBACK)
    out = []
    for h in range(HORIZON):
        feats = np.tile(calendar[hours + h + 1], (n_feeders, 1, 1))
        window = np.concatenate([past[:, :, None], feats], axis=2)
        y = model.predict(window, batch_size=4096, verbose=0)
        past = np.concatenate([past[:, 1:], y[:, None]], axis=1)
        out.append(y)
    return np.stack(out, 1).reshape(n_feeders, len(starts), HORIZON)


days = np.arange(test0, n_hours - HORIZON, 24)
forecast = day_ahead(days)

forecast = np.maximum(forecast * std[:, :, None] + mean[:, :, None], 0.0)
actual = raw[:, days[:, None] + np.arange(HORIZON)]
smape = 2 * np.abs(forecast - actual) / (np.abs(forecast) + np.abs(actual) + 1e-6)
print("sMAPE %.4f" % smape.mean())
print("by hour:", np.round(smape.mean((0, 1)), 3))

pd.DataFrame({"feeder": load.columns, "smape": smape.mean((1, 2))}).to_csv("smape_by_feeder.csv", index=False)
np.save("forecast.npy", forecast)
