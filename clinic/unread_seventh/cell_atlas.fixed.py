"""Wasserstein autoencoder for a single-cell atlas.

Counts (cells x highly variable genes, uint16) come from an .h5 export; the latent code goes
to UMAP / Leiden afterwards.
"""
import argparse
import json
import pathlib

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def load_counts(path):
    with h5py.File(path, "r") as f:
        counts = f["layers/counts"][:]
        holdout = f["obs/holdout"][:].astype(bool)
    return counts[~holdout], counts[holdout]


def cell_batches(counts, batch, training):
    with tf.device("CPU:0"):
        table = tf.constant(counts)
    ds = tf.data.Dataset.range(len(counts))
    if training:
        ds = ds.shuffle(len(counts), reshuffle_each_iteration=True)
    ds = ds.batch(batch, drop_remainder=True)
    ds = ds.map(lambda rows: tf.gather(table, rows), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def mlp(n_in, widths, n_out, name):
    inp = keras.Input((n_in,))
    x = inp
    for w in widths:
        x = layers.Dense(w, use_bias=False)(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("gelu")(x)
        x = layers.Dropout(0.1)(x)
    out = layers.Dense(n_out, dtype="float32")(x)
    return keras.Model(inp, out, name=name)


def log_normalise(counts):
    x = tf.cast(counts, tf.float32)
    depth = tf.maximum(tf.reduce_sum(x, axis=1, keepdims=True), 1.0)
    return tf.math.log1p(1e4 * x / depth)


def kernel(a, b):
    aa = tf.reduce_sum(tf.square(a), axis=1)[:, None]
    bb = tf.reduce_sum(tf.square(b), axis=1)[None, :]
    sq = tf.maximum(aa + bb - 2.0 * tf.matmul(a, b, transpose_b=True), 0.0)
    scale = 2.0 * a.shape[1]
    return tf.add_n([scale * s / (scale * s + sq) for s in (0.2, 1.0, 5.0)])


def mmd(z, prior):
    """Inverse multiquadratics, as in Tolstikhin et al."""
    return (tf.reduce_mean(kernel(z, z)) + tf.reduce_mean(kernel(prior, prior))
            - 2.0 * tf.reduce_mean(kernel(z, prior)))


class Trainer:
    def __init__(self, args, n_genes, steps_per_epoch):
        self.args = args
        self.encoder = mlp(n_genes, [1024, 512], args.latent, "encoder")
        self.decoder = mlp(args.latent, [512, 1024], n_genes, "decoder")
        self.weights = self.encoder.trainable_variables + self.decoder.trainable_variables
        lr = keras.optimizers.schedules.CosineDecay(args.lr, steps_per_epoch * args.epochs)
        self.optimizer = keras.optimizers.AdamW(lr, weight_decay=1e-4)
        self.optimizer.build(self.weights)
        self.recon = keras.metrics.Mean("recon")
        self.gap = keras.metrics.Mean("mmd")

    def losses(self, counts, training):
        x = log_normalise(counts)
        z = self.encoder(x, training=training)
        prior = tf.random.normal([tf.shape(z)[0], self.args.latent])
        recon = tf.reduce_mean(tf.square(self.decoder(z, training=training) - x))
        return recon, mmd(z, prior)

    @tf.function
    def train_step(self, counts):
        with tf.GradientTape() as tape:
            recon, gap = self.losses(counts, training=True)
            loss = recon + self.args.weight * gap
        grads = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(grads, self.weights))
        self.recon.update_state(recon)
        self.gap.update_state(gap)

    @tf.function
    def test_step(self, counts):
        recon, gap = self.losses(counts, training=False)
        self.recon.update_state(recon)
        self.gap.update_state(gap)

    def pop(self):
        out = {m.name: float(m.result()) for m in (self.recon, self.gap)}
        self.recon.reset_state()
        self.gap.reset_state()
        return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("counts", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("atlas_run"))
    p.add_argument("--latent", type=int, default=128)
    p.add_argument("--batch", type=int, default=8192)
    p.add_argument("--epochs", type=int, default=120)
    p.add_argument("--lr", type=float, default=8e-4)
    p.add_argument("--weight", type=float, default=10.0)
    args = p.parse_args()
    args.out.mkdir(exist_ok=True, parents=True)

    keras.utils.set_random_seed(5)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    train, held = load_counts(args.counts)
    print(f"{len(train):,} cells for training, {len(held):,} held out, {train.shape[1]} genes")
    train_ds = cell_batches(train, args.batch, True)
    held_ds = cell_batches(held, args.batch, False)

    trainer = Trainer(args, train.shape[1], len(train) // args.batch)
    history, best = [], np.inf
    for epoch in range(args.epochs):
        for counts in train_ds:
            trainer.train_step(counts)
        row = {"epoch": epoch, **trainer.pop()}
        for counts in held_ds:
            trainer.test_step(counts)
        row.update({f"held_{k}": v for k, v in trainer.pop().items()})
        history.append(row)
        print(" ".join(f"{k}={v:.4g}" for k, v in row.items()), flush=True)
        score = row["held_recon"] + args.weight * row["held_mmd"]
        if score < best:
            best = score
            trainer.encoder.save(args.out / "encoder.keras")
            trainer.decoder.save(args.out / "decoder.keras")
    (args.out / "history.json").write_text(json.dumps(history, indent=1))


if __name__ == "__main__":
    main()
