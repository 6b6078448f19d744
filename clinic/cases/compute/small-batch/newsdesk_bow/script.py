"""Topic tagging of agency news from term counts: one wide hidden layer, multi-label output."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    vocab: int = 5000
    hidden: int = 768
    topics: int = 30
    docs: int = 2880
    batch: int = 8
    epochs: int = 1
    lr: float = 1e-3


def corpus(cfg, seed=5):
    rng = np.random.default_rng(seed)
    topic_words = rng.gamma(0.05, 1.0, size=(cfg.topics, cfg.vocab)).astype("float32")
    tags = (rng.random((cfg.docs, cfg.topics)) < 0.08).astype("float32")
    rate = tags @ topic_words + 0.01
    counts = rng.poisson(rate).astype("float32")
    return np.log1p(counts), tags


def pipeline(cfg, x, y):
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(cfg.docs)
    return ds.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def tagger(cfg):
    inp = tf.keras.Input((cfg.vocab,))
    h = tf.keras.layers.Dense(cfg.hidden, activation="relu")(inp)
    h = tf.keras.layers.Dropout(0.3)(h)
    return tf.keras.Model(inp, tf.keras.layers.Dense(cfg.topics, activation="sigmoid")(h))


def main(cfg):
    x, y = corpus(cfg)
    net = tagger(cfg)
    net.compile(tf.keras.optimizers.Adam(cfg.lr), loss="binary_crossentropy")
    net.fit(pipeline(cfg, x, y), epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main(Config())
