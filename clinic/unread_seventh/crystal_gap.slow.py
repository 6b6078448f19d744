"""Band gap of inorganic crystals from their bond graph.

Each record holds one crystal: atomic numbers `z`, bonds `src`, `dst`, `dist`, and the target `gap`.
"""
import argparse
import logging
import pathlib

import keras
import tensorflow as tf
from keras import layers

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
N_RBF = 64
CUTOFF = 6.0

FEATURES = {
    "z": tf.io.RaggedFeature(tf.int64),
    "src": tf.io.RaggedFeature(tf.int64),
    "dst": tf.io.RaggedFeature(tf.int64),
    "dist": tf.io.RaggedFeature(tf.float32),
    "gap": tf.io.FixedLenFeature([], tf.float32),
}


def collate(records):
    """Join the crystals of a batch into one disconnected graph."""
    ex = tf.io.parse_example(records, FEATURES)
    atoms = tf.cast(ex["z"].row_lengths(), tf.int64)
    first = tf.cumsum(atoms, exclusive=True)
    shift = tf.gather(first, ex["src"].value_rowids())
    return {
        "z": tf.cast(ex["z"].flat_values, tf.int32),
        "owner": tf.cast(ex["z"].value_rowids(), tf.int32),
        "src": tf.cast(ex["src"].flat_values + shift, tf.int32),
        "dst": tf.cast(ex["dst"].flat_values + shift, tf.int32),
        "dist": ex["dist"].flat_values,
        "gap": ex["gap"],
    }


def dataset(pattern, batch, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=8,
                          num_parallel_calls=tf.data.AUTOTUNE, deterministic=not training)
    ds = ds.cache()
    if training:
        ds = ds.shuffle(20_000)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.map(collate, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


class GapNet(keras.Model):
    def __init__(self, width=256, depth=4):
        super().__init__()
        self.atom = layers.Embedding(104, width)
        self.filters = [keras.Sequential([layers.Dense(width, "silu"), layers.Dense(width)])
                        for _ in range(depth)]
        self.mix = [keras.Sequential([layers.Dense(width, "silu"), layers.Dense(width)])
                    for _ in range(depth)]
        self.norms = [layers.LayerNormalization() for _ in range(depth)]
        self.head = keras.Sequential([layers.Dense(width // 2, "silu"), layers.Dense(1)])

    def call(self, g, training=False):
        centers = tf.linspace(0.0, CUTOFF, N_RBF)
        rbf = tf.exp(-10.0 * tf.square(g["dist"][:, None] - centers))
        fade = 0.5 * (tf.cos(3.14159265 * g["dist"] / CUTOFF) + 1.0)
        h = self.atom(g["z"])
        for filt, mix, norm in zip(self.filters, self.mix, self.norms):
            msg = tf.gather(norm(h), g["src"]) * filt(rbf) * fade[:, None]
            h = h + mix(tf.math.unsorted_segment_sum(msg, g["dst"], tf.shape(h)[0]))
        pooled = tf.math.unsorted_segment_mean(h, g["owner"], tf.shape(g["gap"])[0])
        return self.head(pooled)[:, 0]


class Experiment:
    def __init__(self, args):
        self.args = args
        self.net = GapNet(args.width, args.depth)
        schedule = keras.optimizers.schedules.CosineDecay(args.lr, args.epochs * args.steps)
        self.opt = keras.optimizers.AdamW(schedule, weight_decay=1e-5, clipnorm=10.0)
        self.loss = keras.metrics.Mean()
        self.mae = keras.metrics.Mean()

    @tf.function
    def fit_batch(self, g):
        with tf.GradientTape() as tape:
            err = self.net(g, training=True) - g["gap"]
            loss = tf.reduce_mean(tf.where(tf.abs(err) < 1.0, 0.5 * err ** 2, tf.abs(err) - 0.5))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        self.loss.update_state(loss)

    @tf.function
    def score_batch(self, g):
        self.mae.update_state(tf.abs(self.net(g, training=False) - g["gap"]))

    def run(self):
        a = self.args
        train = dataset(a.train, a.batch, True)
        valid = dataset(a.valid, a.batch, False)
        best = float("inf")
        for epoch in range(a.epochs):
            for g in train:
                self.fit_batch(g)
            for g in valid:
                self.score_batch(g)
            mae = float(self.mae.result())
            logging.info("epoch %3d  loss %.4f  valid MAE %.4f eV", epoch,
                         float(self.loss.result()), mae)
            if mae < best:
                best = mae
                self.net.save_weights(str(a.out / "best.weights.h5"))
            self.loss.reset_state()
            self.mae.reset_state()
        logging.info("best %.4f eV", best)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--train", default="mp2024/train-*.tfrecord")
    p.add_argument("--valid", default="mp2024/valid-*.tfrecord")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/gap"))
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=1600, help="batches in one epoch, for the schedule")
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(7)
    Experiment(args).run()
