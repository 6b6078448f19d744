"""BPR ranking of tracks for playlists, pairwise loss with sampled negatives."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    playlists: int = 60_000
    tracks: int = 240_000
    dim: int = 32
    batch: int = 1024
    steps: int = 130
    lr: float = 2e-3


class TwoTables(tf.keras.Model):
    def __init__(self, cfg):
        super().__init__()
        init = tf.keras.initializers.RandomNormal(stddev=0.05)
        self.playlist = tf.keras.layers.Embedding(cfg.playlists, cfg.dim, embeddings_initializer=init)
        self.track = tf.keras.layers.Embedding(cfg.tracks, cfg.dim, embeddings_initializer=init)
        self.mix = tf.keras.layers.Dense(cfg.dim, activation="tanh")

    def call(self, playlist, track):
        return tf.reduce_sum(self.mix(self.playlist(playlist)) * self.track(track), axis=-1)


def interactions(cfg, n=400_000):
    rng = np.random.default_rng(1)
    user = rng.integers(0, cfg.playlists, n).astype(np.int32)
    popular = (rng.pareto(1.2, n) * 40).astype(np.int64) % cfg.tracks
    item = np.where(rng.random(n) < 0.5, popular, (user * 4 + rng.integers(0, 50, n)) % cfg.tracks)
    return user, item.astype(np.int32)


class BPRTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = TwoTables(cfg)
        self.model(tf.zeros([1], tf.int32), tf.zeros([1], tf.int32))
        self.optimizer = tf.keras.optimizers.Adam(cfg.lr)
        self.optimizer.build(self.model.trainable_variables)

    @tf.function
    def step(self, user, pos):
        neg = tf.random.uniform(tf.shape(pos), 0, self.cfg.tracks, tf.int32)
        with tf.GradientTape() as tape:
            margin = self.model(user, pos) - self.model(user, neg)
            loss = -tf.reduce_mean(tf.math.log_sigmoid(margin))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, tf.reduce_mean(tf.cast(margin > 0, tf.float32))

    def fit(self, batches):
        start = time.perf_counter()
        for i in range(self.cfg.steps):
            user, pos = next(batches)
            loss, auc = self.step(user, pos)
            if (i + 1) % 40 == 0:
                print(f"step {i + 1}: bpr {float(loss):.4f} auc {float(auc):.3f}")
        return time.perf_counter() - start


if __name__ == "__main__":
    tf.random.set_seed(0)
    cfg = Config()
    user, item = interactions(cfg)
    ds = (tf.data.Dataset.from_tensor_slices((user, item)).shuffle(50_000).batch(cfg.batch)
          .repeat().prefetch(tf.data.AUTOTUNE))
    batches = iter(ds)
    seconds = BPRTrainer(cfg).fit(batches)
    print("WORK", cfg.steps * cfg.batch)
    print("TRAIN_SECONDS", seconds)
