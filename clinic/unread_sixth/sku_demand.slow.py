"""Weekly unit demand per store/SKU. Poisson deviance, because the long tail sells 0-3 a week."""
import argparse
import logging
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

log = logging.getLogger("demand")
LAGS = (1, 2, 3, 4, 8, 13, 26, 52)


class FeatureBuilder:
    def __init__(self):
        self.stores = None
        self.skus = None
        self.numeric = [f"lag_{k}" for k in LAGS] + ["price_ratio", "promo", "week_sin", "week_cos"]

    def transform(self, sales):
        # the calendar join leaves a row for every week, sold or not
        grid = sales.set_index(["store", "sku", "week"]).unstack("week")
        units = grid["units"].fillna(0).stack("week").rename("units")
        df = sales.drop(columns="units").merge(units.reset_index(), on=["store", "sku", "week"], how="right")
        df = df.sort_values(["store", "sku", "week"]).reset_index(drop=True)
        g = df.groupby(["store", "sku"], sort=False)
        df["price"] = g["price"].ffill().fillna(df["price"].median())
        df["price_ratio"] = df["price"] / g["price"].transform("mean").clip(lower=0.01)
        df["promo"] = df["promo"].fillna(0)
        for k in LAGS:
            df[f"lag_{k}"] = np.log1p(g["units"].shift(k))
        woy = df["week"] % 52
        df["week_sin"], df["week_cos"] = np.sin(woy * 2 * np.pi / 52), np.cos(woy * 2 * np.pi / 52)
        df = df.dropna(subset=[f"lag_{k}" for k in LAGS])
        df["store_id"], self.stores = pd.factorize(df["store"])
        df["sku_id"], self.skus = pd.factorize(df["sku"])
        return df

    def arrays(self, df):
        x = {
            "store": df["store_id"].to_numpy("int32"),
            "sku": df["sku_id"].to_numpy("int32"),
            "numeric": df[self.numeric].to_numpy("float32"),
        }
        return x, df["units"].to_numpy("float32")[:, None]


def poisson_deviance(y_true, y_pred):
    ratio = y_true * tf.math.log(y_true / y_pred)
    return 2.0 * tf.reduce_mean(ratio - (y_true - y_pred), axis=-1)


def build_model(fb):
    store = keras.Input((), dtype="int32", name="store")
    sku = keras.Input((), dtype="int32", name="sku")
    numeric = keras.Input((len(fb.numeric),), name="numeric")
    x = layers.Concatenate()([
        layers.Embedding(len(fb.stores), 8)(store),
        layers.Embedding(len(fb.skus), 24)(sku),
        numeric,
    ])
    for units in (256, 128, 64):
        x = layers.Dense(units, activation="swish")(x)
        x = layers.Dropout(0.1)(x)
    mu = layers.Dense(1, activation="softplus")(x)
    mu = layers.Rescaling(1.0, offset=1e-4)(mu)
    return keras.Model({"store": store, "sku": sku, "numeric": numeric}, mu)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--sales", default="warehouse/weekly_sales.csv")  # 40 stores, 900 SKUs, 3 years
    ap.add_argument("--holdout-weeks", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=8192)
    ap.add_argument("--out", type=Path, default=Path("out/demand"))
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)
    args.out.mkdir(parents=True, exist_ok=True)

    sales = pd.read_csv(args.sales, usecols=["store", "sku", "week", "units", "price", "promo"])
    fb = FeatureBuilder()
    df = fb.transform(sales)
    cutoff = df["week"].max() - args.holdout_weeks
    train, valid = df[df["week"] <= cutoff], df[df["week"] > cutoff]
    log.info("train %d valid %d, share of zero weeks %.2f", len(train), len(valid), (train["units"] == 0).mean())

    model = build_model(fb)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=poisson_deviance, metrics=["mae"])
    model.fit(
        *fb.arrays(train),
        validation_data=fb.arrays(valid),
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=[keras.callbacks.ReduceLROnPlateau(patience=4, factor=0.5)],
        verbose=2,
    )
    model.save(args.out / "demand.keras")
    with open(args.out / "features.pkl", "wb") as fh:
        pickle.dump(fb, fh)


if __name__ == "__main__":
    main()
