"""Telecom churn scoring. Columns come straight out of the warehouse export."""
from typing import Dict

import numpy as np
import pandas as pd
import tensorflow as tf

N_ROWS = 300_000
COLUMNS = (
    [f"usage_{m:02d}" for m in range(60)]
    + [f"billing_{m:02d}" for m in range(60)]
    + [f"support_{m:02d}" for m in range(40)]
)
BATCH = 1024


def load_frame() -> pd.DataFrame:
    rng = np.random.default_rng(77)
    vals = rng.standard_normal((N_ROWS, len(COLUMNS))).astype("float32")
    df = pd.DataFrame(vals, columns=COLUMNS)
    score = df["usage_00"] - df["billing_03"] + 0.5 * df["support_01"]
    df["churned"] = (score + rng.standard_normal(N_ROWS) > 1).astype("float32")
    return df


def to_dataset(df: pd.DataFrame, training: bool) -> tf.data.Dataset:
    y = df["churned"].to_numpy()
    feats = df[COLUMNS].to_numpy()
    order = np.random.permutation(len(df)) if training else np.arange(len(df))
    order = order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)
    ds = tf.data.Dataset.from_tensor_slices((feats[order], y[order]))
    if training:
        ds = ds.shuffle(64)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model() -> tf.keras.Model:
    inputs = tf.keras.Input((len(COLUMNS),))
    x = inputs
    x = tf.keras.layers.BatchNormalization()(x)
    for units in (256, 128, 32):
        x = tf.keras.layers.Dense(units, activation="relu")(x)
        x = tf.keras.layers.Dropout(0.1)(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))


def main() -> None:
    tf.keras.utils.set_random_seed(1)
    df = load_frame()
    train, valid = df.iloc[:270_000], df.iloc[270_000:]
    model = build_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.AUC(from_logits=True)],
    )
    model.fit(
        to_dataset(train, True),
        validation_data=to_dataset(valid, False),
        epochs=10,
        verbose=2,
    )


if __name__ == "__main__":
    main()
