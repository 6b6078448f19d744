"""Day-ahead load forecast for the distribution feeders (hourly SCADA + weather)."""
import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
from tensorflow import keras
from tensorflow.keras import layers

LOG = logging.getLogger("load_forecast")
HISTORY = 168
HORIZON = 24
COLS = ["load_mw", "temp_c", "wind_ms", "irradiance", "is_holiday", "hour_sin", "hour_cos"]


def read_feeder(path):
    df = pd.read_csv(path, parse_dates=["ts"]).set_index("ts").asfreq("h").interpolate(limit=6).dropna()
    hour = df.index.hour.to_numpy() * 2 * np.pi / 24
    df["hour_sin"], df["hour_cos"] = np.sin(hour), np.cos(hour)
    return df[COLS].astype("float32")


def windows(values, stride):
    w = np.lib.stride_tricks.sliding_window_view(values, HISTORY + HORIZON, axis=0)[::stride]
    w = np.ascontiguousarray(w.transpose(0, 2, 1))
    return w[:, :HISTORY], w[:, HISTORY:, 0]


def assemble(folder, split_date, stride):
    parts = {"train": [], "val": []}
    scale = {}
    for path in sorted(Path(folder).glob("feeder_*.csv")):
        df = read_feeder(path)
        past = df[:split_date]
        mean, std = past.mean(), past.std().replace(0, 1)
        scale[path.stem] = {"mean": float(mean["load_mw"]), "std": float(std["load_mw"])}
        normed = (df - mean) / std
        parts["train"].append(windows(normed[:split_date].to_numpy("float32"), stride))
        parts["val"].append(windows(normed[split_date:].to_numpy("float32"), HORIZON))
    out = {}
    for name, items in parts.items():
        out[name] = tuple(np.concatenate(p) for p in zip(*items))
        LOG.info("%s windows: %s", name, out[name][0].shape)
    return out, scale


def build(units, dropout):
    inp = keras.Input((HISTORY, len(COLS)))
    x = layers.LSTM(units, return_sequences=True, dropout=dropout)(inp)
    x = layers.LSTM(units, dropout=dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    out = layers.Dense(HORIZON)(x)
    return keras.Model(inp, out)


def report(model, val, out_dir):
    pred = model.predict(val[0], batch_size=1024, verbose=0)
    err = np.abs(pred - val[1])
    table = pd.DataFrame({"hour_ahead": np.arange(1, HORIZON + 1), "mae": err.mean(axis=0), "p95": np.quantile(err, 0.95, axis=0)})
    table.to_csv(out_dir / "errors.csv", index=False)
    LOG.info("mean normalised MAE %.4f", err.mean())


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="scada/hourly")      # 46 feeders, 2017-2023
    parser.add_argument("--split-date", default="2023-01-01")
    parser.add_argument("--stride", type=int, default=12)
    parser.add_argument("--units", type=int, default=192)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("runs/load"))
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    args.out.mkdir(parents=True, exist_ok=True)

    data, scale = assemble(args.folder, args.split_date, args.stride)
    pd.DataFrame(scale).T.to_csv(args.out / "scale.csv")

    keras.utils.set_random_seed(7)
    model = build(args.units, args.dropout)
    model.compile(optimizer=keras.optimizers.Adam(1e-3, clipnorm=1.0), loss=keras.losses.Huber(), metrics=["mae"])
    model.fit(
        *data["train"],
        validation_data=data["val"],
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=6, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5),
        ],
        verbose=2,
    )
    model.save(args.out / "forecast.keras")
    report(model, data["val"], args.out)


if __name__ == "__main__":
    main()
