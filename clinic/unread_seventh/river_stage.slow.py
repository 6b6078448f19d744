# %% River stage, 24 h ahead, from the last week of hourly readings
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers as L

keras.utils.set_random_seed(3)
keras.mixed_precision.set_global_policy("mixed_float16")

HISTORY = 168
HORIZON = 24
BATCH = 256
COLUMNS = ["stage_m", "flow", "rain_mm", "rain_up_mm", "temp_c", "snow_cm", "doy_sin", "doy_cos"]

# %% load
df = pd.read_parquet("gauge_0415_hourly.parquet").set_index("time").sort_index()
doy = df.index.dayofyear / 365.25 * 2 * np.pi
df["doy_sin"], df["doy_cos"] = np.sin(doy), np.cos(doy)
df = df[COLUMNS].interpolate(limit=6).ffill().astype("float32")
print(df.describe().T)

# %% chronological split, statistics from the training years only
train_df = df[: "2015-12-31"]
val_df = df["2016-01-01":"2018-12-31"]
test_df = df["2019-01-01":]
mean, std = train_df.mean(), train_df.std()


def scaled(frame):
    return ((frame - mean) / std).to_numpy("float32")


# %% datasets
def make_dataset(series, training=False):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(HISTORY + HORIZON, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(HISTORY + HORIZON))
    if training:
        ds = ds.shuffle(10_000)
    ds = ds.map(lambda w: (w[:HISTORY], w[HISTORY:, 0]), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


train_ds = make_dataset(scaled(train_df), training=True)
val_ds = make_dataset(scaled(val_df))
test_ds = make_dataset(scaled(test_df))


# %% model: dilated causal convolutions with gates
def gated(x, dilation, width=64):
    a = L.Conv1D(width, 3, padding="causal", dilation_rate=dilation, activation="tanh")(x)
    b = L.Conv1D(width, 3, padding="causal", dilation_rate=dilation, activation="sigmoid")(x)
    z = L.Conv1D(width, 1)(L.Multiply()([a, b]))
    return L.Add()([x, z]), z


inp = keras.Input((HISTORY, len(COLUMNS)))
x = L.Conv1D(64, 1)(inp)
skips = []
for d in (1, 2, 4, 8, 16, 32):
    x, s = gated(x, d)
    skips.append(s)
x = L.ReLU()(L.Add()(skips))
x = L.Lambda(lambda t: t[:, -1])(x)
x = L.Dense(128, activation="relu")(x)
x = L.Dropout(0.1)(x)
out = L.Dense(HORIZON, dtype="float32")(x)
model = keras.Model(inp, out)
model.summary()

# %% train
model.compile(keras.optimizers.Adam(1e-3), loss=keras.losses.Huber(), metrics=["mae"])
history = model.fit(
    train_ds,
    validation_data=val_ds,
    epochs=40,
    verbose=2,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5),
        keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("river_stage.keras", save_best_only=True),
    ],
)

# %% how good is it, in centimetres, by lead time
pred = model.predict(test_ds, verbose=0)
truth = np.concatenate([y.numpy() for _, y in test_ds])
cm = np.abs(pred - truth).mean(0) * std["stage_m"] * 100
persistence = np.concatenate([np.repeat(x.numpy()[:, -1:, 0], HORIZON, 1) for x, _ in test_ds])
base = np.abs(persistence - truth).mean(0) * std["stage_m"] * 100

# %%
fig, ax = plt.subplots(1, 2, figsize=(11, 4))
ax[0].plot(history.history["loss"], label="train")
ax[0].plot(history.history["val_loss"], label="val")
ax[0].legend()
ax[1].plot(range(1, HORIZON + 1), cm, label="model")
ax[1].plot(range(1, HORIZON + 1), base, label="persistence")
ax[1].set_xlabel("lead time [h]")
ax[1].set_ylabel("MAE [cm]")
ax[1].legend()
fig.tight_layout()
fig.savefig("river_stage.png", dpi=130)
