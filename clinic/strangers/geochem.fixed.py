"""Soil geochemistry over a survey area: predicts log-copper from pathfinder elements plus a learnt term per map cell."""
import argparse
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

ROWS, COLS = 600, 700
ELEMENTS = 40


def synthesise(samples, stations, rng):
    lattice = rng.choice(ROWS * COLS, size=stations, replace=False)
    r, c = np.divmod(lattice, COLS)
    regional = np.sin(r / 40.0) * np.cos(c / 55.0) + 0.3 * rng.normal(size=stations)
    which = rng.integers(0, stations, samples)
    latent = rng.normal(size=(samples, 6))
    mix = rng.normal(size=(6, ELEMENTS)) / np.sqrt(6)
    assay = latent @ mix + 0.3 * rng.normal(size=(samples, ELEMENTS))
    cu = regional[which] + np.tanh(latent[:, 0] * latent[:, 1]) + 0.5 * latent[:, 2] + 0.1 * rng.normal(size=samples)
    cell = (r[which] * COLS + c[which]).astype("int32")
    return cell, assay.astype("float32"), cu.astype("float32")


def ilr(assay):
    """Centred log-ratios of the assays (already in log space)."""
    return assay - assay.mean(axis=1, keepdims=True)


def network(cells, dim, units):
    cell = keras.Input((), dtype="int32", name="cell")
    assay = keras.Input((ELEMENTS,), name="assay")
    site = layers.Embedding(cells, dim, embeddings_initializer="zeros", name="site")(cell)
    h = layers.Concatenate()([assay, site])
    for u in units:
        h = layers.Dense(u, activation="swish")(h)
    value = layers.Dense(1)(h)
    trend = layers.Dense(1, use_bias=False)(site)
    return keras.Model({"cell": cell, "assay": assay}, layers.Add()([value, trend]))


def pipeline(cell, assay, cu, batch):
    ds = tf.data.Dataset.from_tensor_slices(({"cell": cell, "assay": assay}, cu[:, None]))
    return ds.shuffle(len(cu), seed=1).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--samples", type=int, default=28672)
    ap.add_argument("--stations", type=int, default=4000)
    ap.add_argument("--dim", type=int, default=16)
    args = ap.parse_args()

    keras.utils.set_random_seed(4)
    cell, assay, cu = synthesise(args.samples, args.stations, np.random.default_rng(4))
    assay = ilr(assay)
    occupied, cell = np.unique(cell, return_inverse=True)
    cell = cell.astype("int32")
    cells = len(occupied)
    model = network(cells, args.dim, (256, 256))
    model.compile(optimizer=keras.optimizers.Adam(1.5e-3), loss="mse", metrics=["mae"])
    print(f"{len(cu)} samples, {len(np.unique(cell))} stations, {model.count_params()} parameters")

    ds = pipeline(cell, assay, cu, args.batch)
    start = time.perf_counter()
    history = model.fit(ds, epochs=args.epochs, verbose=2)
    spent = time.perf_counter() - start

    print("variance explained: %.3f" % (1 - history.history["loss"][-1] / cu.var()))
    print("WORK", args.epochs * (args.samples // args.batch) * args.batch)
    print("TRAIN_SECONDS %.3f" % spent)


if __name__ == "__main__":
    main()
