"""Click-through model on ad impressions (port of the old estimator code)."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

N_NUM, N_CAT, HASH = 13, 8, 5000


def synth_log(n: int, seed: int = 3):
    g = np.random.default_rng(seed)
    num = g.lognormal(1.0, 1.2, (n, N_NUM)).astype(np.float32)
    cat = g.integers(0, 1_000_000, (n, N_CAT)).astype(np.int64)
    y = (g.random(n) < 1 / (1 + np.exp(3 - 0.2 * num[:, 0]))).astype(np.float32)
    return num, cat, y


def featurize(num, cat, y):
    num = tf.math.log1p(tf.maximum(num, 0.0))
    num = (num - 1.3) / 0.8
    cat = tf.math.floormod(cat * 2654435761, HASH)
    return {"num": num, "cat": tf.cast(cat, tf.int32)}, y


def make_dataset(num, cat, y, batch_size, training=True):
    ds = tf.data.Dataset.from_tensor_slices((num, cat, y))
    if training:
        ds = ds.shuffle(20_000)
    ds = ds.batch(batch_size, drop_remainder=training)
    ds = ds.map(featurize, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model(dim: int):
    num = layers.Input((N_NUM,), name="num")
    cat = layers.Input((N_CAT,), dtype="int32", name="cat")
    e = layers.Embedding(HASH, dim)(cat)
    x = layers.Concatenate()([num, layers.Flatten()(e)])
    for units in (128, 64):
        x = layers.Dense(units, activation="relu")(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    return tf.keras.Model([num, cat], out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=1_000_000)
    ap.add_argument("--batch-size", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--dim", type=int, default=16)
    args = ap.parse_args()

    num, cat, y = synth_log(args.rows)
    cut = int(args.rows * 0.95)
    train = make_dataset(num[:cut], cat[:cut], y[:cut], args.batch_size)
    valid = make_dataset(num[cut:], cat[cut:], y[cut:], args.batch_size, training=False)

    model = build_model(args.dim)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss="binary_crossentropy",
        metrics=[tf.keras.metrics.AUC(name="auc")],
    )
    model.fit(train, validation_data=valid, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
