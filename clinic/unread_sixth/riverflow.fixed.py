"""Daily-ahead discharge for the upper catchment from hourly logger data.

Usage: python riverflow.py --csv logger_hourly.csv
"""
import argparse

import numpy as np
import pandas as pd
import tensorflow as tf

FEATURES = ["rain_mm", "temp_c", "snow_cm", "stage_m", "soil_moist", "wind_ms",
            "rad_wm2", "rh", "upstream_stage_m", "doy_sin", "doy_cos"]
TARGET = "discharge_m3s"


def read_logger(path):
    df = pd.read_csv(path, parse_dates=["time"]).sort_values("time")
    doy = df["time"].dt.dayofyear.to_numpy()
    df["doy_sin"] = np.sin(2 * np.pi * doy / 365.25)
    df["doy_cos"] = np.cos(2 * np.pi * doy / 365.25)
    df[FEATURES] = df[FEATURES].interpolate(limit_direction="both")
    df[TARGET] = df[TARGET].interpolate(limit_direction="both")
    return df


def nse(y_true, y_pred):
    return 1 - np.sum((y_true - y_pred) ** 2) / np.sum((y_true - y_true.mean()) ** 2)


def make_dataset(X, y, times, lookback, horizon, batch, training):
    times = np.asarray(times, dtype="int64")
    Xt, yt = tf.constant(X), tf.constant(y)
    back = tf.range(-lookback, 0, dtype=tf.int64)[tf.newaxis, :]

    def windows(t):
        past = tf.gather(Xt, t[:, tf.newaxis] + back)
        return past, tf.gather(yt, t + horizon - 1)

    if training:
        times = np.random.permutation(times)
    ds = tf.data.Dataset.from_tensor_slices(times)
    if training:
        ds = ds.shuffle(20_000)
    ds = ds.batch(batch).map(windows, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model(lookback, nf):
    return tf.keras.Sequential([
        tf.keras.Input((lookback, nf)),
        tf.keras.layers.Conv1D(48, 7, strides=2, activation="relu"),
        tf.keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
        tf.keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(1),
    ])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--csv", default="logger_hourly.csv")   # 1986-2022, about 315k rows
    ap.add_argument("--lookback", type=int, default=240)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=30)
    args = ap.parse_args()

    df = read_logger(args.csv)
    n = len(df)
    cut = int(n * 0.85)
    X = df[FEATURES].to_numpy("float32")
    mu, sd = X[:cut].mean(0), X[:cut].std(0) + 1e-6
    X = (X - mu) / sd
    y = np.log1p(df[TARGET].to_numpy("float32"))

    train_t = np.arange(args.lookback, cut - args.horizon)
    test_t = np.arange(cut + args.lookback, n - args.horizon)
    train = make_dataset(X, y, train_t, args.lookback, args.horizon, args.batch, True)
    test = make_dataset(X, y, test_t, args.lookback, args.horizon, args.batch, False)

    model = make_model(args.lookback, X.shape[1])
    model.compile("adam", loss="mse")
    model.fit(train, epochs=args.epochs, verbose=2,
              callbacks=[tf.keras.callbacks.EarlyStopping("loss", patience=5)])

    q = np.expm1(model.predict(test, verbose=0)[:, 0])
    obs = np.expm1(y[test_t + args.horizon - 1])
    print("NSE  %.3f" % nse(obs, q))
    print("bias %.1f %%" % (100 * (q.sum() - obs.sum()) / obs.sum()))
    pd.DataFrame({"time": df["time"].to_numpy()[test_t], "obs": obs, "sim": q}).to_csv(
        "sim_discharge.csv", index=False)


if __name__ == "__main__":
    main()
