# %% [markdown]
# # PV day-ahead forecast
# 8 years of hourly inverter data + NWP columns for one plant

# %%
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

df = pd.read_parquet("plant_hourly.parquet")  # 70128 rows
df = df.sort_index().interpolate(limit=3).dropna()

cols = ["power", "ghi", "dni", "temp", "cloud", "wind"]
hour = df.index.hour.to_numpy()
doy = df.index.dayofyear.to_numpy()
feats = np.column_stack([
    df[cols].to_numpy(),
    np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24),
    np.sin(2 * np.pi * doy / 365.25), np.cos(2 * np.pi * doy / 365.25),
]).astype("float32")

# %%
LOOKBACK, HORIZON = 72, 24
BATCH_SIZE = 128

n_train = int(len(feats) * 0.85)
mean, std = feats[:n_train].mean(0), feats[:n_train].std(0) + 1e-6
feats = (feats - mean) / std


def windows(block):
    w = np.lib.stride_tricks.sliding_window_view(block, LOOKBACK + HORIZON, axis=0)
    w = w.transpose(0, 2, 1)
    return np.ascontiguousarray(w[:, :LOOKBACK]), np.ascontiguousarray(w[:, LOOKBACK:, 0])


X_train, y_train = windows(feats[:n_train])
X_val, y_val = windows(feats[n_train:])
print(X_train.shape, y_train.shape, X_val.shape)

# %%
train_ds = (
    tf.data.Dataset.from_tensor_slices((X_train, y_train))
    .shuffle(10000)
    .repeat()
    .batch(BATCH_SIZE)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = (
    tf.data.Dataset.from_tensor_slices((X_val, y_val))
    .batch(BATCH_SIZE)
    .prefetch(tf.data.AUTOTUNE)
)

# %%
inp = keras.Input((LOOKBACK, X_train.shape[-1]))
x = layers.Conv1D(64, 5, padding="causal", activation="relu")(inp)
x = layers.LSTM(128, return_sequences=True)(x)
x = layers.LSTM(64)(x)
x = layers.Dropout(0.2)(x)
out = layers.Dense(HORIZON)(x)
model = keras.Model(inp, out)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="huber", metrics=["mae"])
model.summary()

# %%
hist = model.fit(
    train_ds,
    epochs=30,
    steps_per_epoch=len(X_train) // BATCH_SIZE,
    validation_data=val_ds,
    callbacks=[
        keras.callbacks.EarlyStopping(patience=6, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau(patience=3),
    ],
)

# %%
pred = model.predict(val_ds) * std[0] + mean[0]
true = y_val * std[0] + mean[0]
print("nRMSE", np.sqrt(np.mean((pred - true) ** 2)) / df["power"].max())
pd.DataFrame(hist.history).to_csv("pv_history.csv", index=False)
model.save("pv_dayahead.keras")
