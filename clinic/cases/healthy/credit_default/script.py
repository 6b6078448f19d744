"""Credit default on a wide one-hot-plus-numeric table, Keras fit with class weights, one evaluation at the end."""
import argparse
import time

import numpy as np
import tensorflow as tf


def table(rows, cols):
    rng = np.random.default_rng(77)
    x = rng.normal(size=(rows, cols)).astype(np.float32)
    x[:, cols // 2:] = (x[:, cols // 2:] > 1).astype(np.float32)
    w = rng.normal(size=cols) / np.sqrt(cols)
    return x, (x @ w + rng.normal(0, 0.5, rows) > 0.7).astype(np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=24_000)
    ap.add_argument("--cols", type=int, default=320)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--epochs", type=int, default=4)
    a = ap.parse_args()
    x, y = table(a.rows, a.cols)
    cut = int(a.rows * 0.9)
    model = tf.keras.Sequential([tf.keras.Input((a.cols,))])
    for units in (1024, 768, 512):
        model.add(tf.keras.layers.Dense(units, activation="gelu"))
        model.add(tf.keras.layers.Dropout(0.2))
    model.add(tf.keras.layers.Dense(1))
    model.compile(tf.keras.optimizers.Adam(5e-4), tf.keras.losses.BinaryCrossentropy(from_logits=True))
    pos = float(y.mean())
    t0 = time.perf_counter()
    model.fit(x[:cut], y[:cut], batch_size=a.batch, epochs=a.epochs, verbose=2,
              class_weight={0: 1.0, 1: (1 - pos) / pos})
    print(f"fit {time.perf_counter() - t0:.1f}s")
    s = model.predict(x[cut:], batch_size=1024, verbose=0)[:, 0]
    order = np.argsort(s)
    rank = np.empty(len(s))
    rank[order] = np.arange(len(s))
    t = y[cut:] > 0.5
    print("auc", (rank[t].mean() - (t.sum() - 1) / 2) / (~t).sum())


if __name__ == "__main__":
    main()
