"""Two-tower model: which collectors want which postcards. Ids are hashed, as in production."""
import time
import zlib

import numpy as np
import tensorflow as tf
from tensorflow import keras


class Config(dict):
    __getattr__ = dict.__getitem__


CFG = Config(bits=17, dim=16, hidden=512, batch=512, steps=900, collectors=3000, cards=2500, trades=82_000)


def hashed(prefix, n, bits):
    return np.array([zlib.crc32(f"{prefix}:{k}".encode()) % (1 << bits) for k in range(n)], dtype=np.int32)


def trades(cfg, seed=23):
    g = np.random.default_rng(seed)
    who = g.integers(0, cfg.collectors, cfg.trades)
    what = (who * 7 + g.geometric(0.01, cfg.trades)) % cfg.cards
    return hashed("collector", cfg.collectors, cfg.bits)[who], hashed("card", cfg.cards, cfg.bits)[what]


class Tower(keras.layers.Layer):
    def __init__(self, cfg, **kw):
        super().__init__(**kw)
        self.table = keras.layers.Embedding(1 << cfg.bits, cfg.dim)
        self.mlp = keras.layers.Dense(cfg.hidden, activation="relu")
        self.out = keras.layers.Dense(cfg.dim)

    def call(self, ids):
        return self.out(self.mlp(self.table(ids)))


class Matchmaker(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.left, self.right = Tower(cfg), Tower(cfg)

    def call(self, pair):
        return tf.matmul(self.left(pair[0]), self.right(pair[1]), transpose_b=True)

    def train_step(self, data):
        pair = data[0]
        with tf.GradientTape() as tape:
            scores = self(pair, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.range(tf.shape(scores)[0]), scores))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        return {"loss": loss}


def main(cfg):
    ds = tf.data.Dataset.from_tensor_slices(trades(cfg)).batch(cfg.batch, drop_remainder=True)
    ds = ds.map(lambda a, b: ((a, b),)).cache().repeat().prefetch(2)
    m = Matchmaker(cfg)
    m.compile(optimizer=keras.optimizers.Adam(1e-3))
    m.fit(ds, steps_per_epoch=3, verbose=0)
    a = time.perf_counter()
    m.fit(ds, steps_per_epoch=cfg.steps, verbose=2)
    b = time.perf_counter()
    print("WORK", cfg.steps * cfg.batch)
    print("TRAIN_SECONDS", round(b - a, 3))


if __name__ == "__main__":
    main(CFG)
