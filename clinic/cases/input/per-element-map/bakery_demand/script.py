"""Daily demand for bakery articles: wide & deep style regression on till records."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf

WEEKDAYS = 7
STORES = 24
ARTICLES = 60


def make_till_records(rows, seed=3):
    rng = np.random.default_rng(seed)
    cols = {
        "store": rng.integers(0, STORES, rows).astype("int32"),
        "article": rng.integers(0, ARTICLES, rows).astype("int32"),
        "weekday": rng.integers(0, WEEKDAYS, rows).astype("int32"),
        "temperature": rng.normal(14, 8, rows).astype("float32"),
        "price": rng.uniform(0.4, 9.0, rows).astype("float32"),
        "yesterday": rng.poisson(30, rows).astype("float32"),
    }
    sold = (cols["yesterday"] * 0.7 + 6 * (cols["weekday"] > 4) - 1.5 * cols["price"]
            + 0.2 * cols["temperature"] + rng.normal(0, 2, rows))
    return cols, sold.astype("float32")


def featurize(rec, sold):
    temp = (rec["temperature"] - 14.0) / 8.0
    price = tf.math.log1p(rec["price"])
    lag = tf.math.log1p(rec["yesterday"])
    phase = tf.cast(rec["weekday"], tf.float32) * (2 * np.pi / WEEKDAYS)
    dense = tf.stack([temp, temp * temp, price, lag, price * lag,
                      tf.sin(phase), tf.cos(phase)], axis=-1)
    onehot = tf.concat([tf.one_hot(rec["store"], STORES),
                        tf.one_hot(rec["article"], ARTICLES)], axis=-1)
    return tf.concat([dense, onehot], axis=-1), tf.math.log1p(tf.maximum(sold, 0.0))


def pipeline(cols, sold, batch):
    ds = tf.data.Dataset.from_tensor_slices((cols, sold))
    ds = ds.shuffle(4096, seed=1)
    ds = ds.map(featurize, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    inp = keras.Input((7 + STORES + ARTICLES,))
    h = keras.layers.Dense(64, activation="relu")(inp)
    h = keras.layers.Dense(32, activation="relu")(h)
    out = keras.layers.Dense(1)(keras.layers.Concatenate()([h, inp]))
    return keras.Model(inp, out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=36000)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()

    cols, sold = make_till_records(args.rows)
    train = pipeline(cols, sold, args.batch)
    model = build()
    model.compile(keras.optimizers.Adam(2e-3), "huber", metrics=["mae"])
    t0 = time.perf_counter()
    hist = model.fit(train, epochs=args.epochs, verbose=2)
    spent = time.perf_counter() - t0
    print("final mae", round(hist.history["mae"][-1], 4))
    print("WORK", args.epochs * (args.rows // args.batch) * args.batch)
    print("TRAIN_SECONDS %.3f" % spent)


if __name__ == "__main__":
    main()
