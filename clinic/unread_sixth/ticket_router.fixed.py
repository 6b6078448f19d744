"""Route support tickets to one of the 38 queues. Small transformer, trained from scratch on 3 years of tickets."""
import argparse
import logging
import os
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

log = logging.getLogger(__name__)


@dataclass
class Config:
    csv: str
    out: str
    vocab: int = 30000
    seq_len: int = 192
    dim: int = 192
    heads: int = 4
    depth: int = 3
    batch: int = 256
    epochs: int = 8
    lr: float = 4e-4
    smoothing: float = 0.15


def read_tickets(cfg):
    df = pd.read_csv(cfg.csv, usecols=["subject", "body", "queue"]).dropna()
    text = (df["subject"] + " \n " + df["body"].str.slice(0, 4000)).tolist()
    labels, names = pd.factorize(df["queue"], sort=True)
    vec = layers.TextVectorization(cfg.vocab, output_sequence_length=cfg.seq_len)
    vec.adapt(tf.data.Dataset.from_tensor_slices(text).batch(4096))
    ids = np.concatenate([vec(tf.constant(text[i:i + 8192])).numpy() for i in range(0, len(text), 8192)]).astype("int32")
    order = np.random.default_rng(13).permutation(len(ids))
    cut = int(0.95 * len(ids))
    tr, va = order[:cut], order[cut:]
    log.info("tickets %d, queues %d", len(ids), len(names))
    return (ids[tr], labels[tr].astype("int32")), (ids[va], labels[va].astype("int32")), list(names)


class PositionTable(layers.Layer):
    def __init__(self, length, dim, **kwargs):
        super().__init__(**kwargs)
        self.length, self.dim = length, dim

    def build(self, input_shape):
        self.table = self.add_weight(shape=(self.length, self.dim), initializer="uniform", name="table")

    def call(self, x):
        return x + self.table

    def get_config(self):
        return {**super().get_config(), "length": self.length, "dim": self.dim}


def make_model(cfg, n_classes):
    ids = keras.Input((cfg.seq_len,), dtype="int32")
    x = PositionTable(cfg.seq_len, cfg.dim)(layers.Embedding(cfg.vocab, cfg.dim)(ids))
    for _ in range(cfg.depth):
        h = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(cfg.heads, cfg.dim // cfg.heads, dropout=0.1)(h, h)
        h = layers.LayerNormalization()(x)
        h = layers.Dense(cfg.dim * 4, activation="gelu")(h)
        x = x + layers.Dense(cfg.dim)(h)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(ids, layers.Dense(n_classes)(layers.Dropout(0.2)(x)))


class Trainer:
    def __init__(self, cfg, model, n_classes):
        self.cfg = cfg
        self.model = model
        self.n_classes = n_classes
        self.optimizer = keras.optimizers.Adam(cfg.lr)
        self.optimizer.build(model.trainable_variables)
        self.loss = keras.metrics.Mean()
        self.acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(self, ids, y, smoothing):
        target = tf.one_hot(y, self.n_classes) * (1.0 - smoothing) + smoothing / self.n_classes
        with tf.GradientTape() as tape:
            logits = self.model(ids, training=True)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)

    @tf.function
    def eval_step(self, ids, y):
        self.acc.update_state(y, self.model(ids, training=False))

    def run(self, train, val):
        n = len(train[0])
        steps = n // self.cfg.batch
        total = steps * self.cfg.epochs
        val_ds = tf.data.Dataset.from_tensor_slices(val).batch(1024).cache().prefetch(2)
        train_ds = make_train_dataset(train, self.cfg.batch)
        step = 0
        for epoch in range(self.cfg.epochs):
            started = time.time()
            self.loss.reset_state()
            self.acc.reset_state()
            for ids, y in train_ds:
                smoothing = tf.constant(self.cfg.smoothing * (1.0 - step / total), tf.float32)
                self.train_step(ids, y, smoothing)
                step += 1
            for ids, y in val_ds:
                self.eval_step(ids, y)
            log.info("epoch %d loss %.4f val_acc %.4f (%.0fs)", epoch + 1, float(self.loss.result()),
                     float(self.acc.result()), time.time() - started)


def make_train_dataset(train, batch):
    ds = tf.data.Dataset.from_tensor_slices(train)
    ds = ds.shuffle(50_000).batch(batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    ap = argparse.ArgumentParser()
    ap.add_argument("--csv", default="exports/tickets_2021_2023.csv")  # 640k tickets
    ap.add_argument("--out", default="models/router")
    ap.add_argument("--epochs", type=int, default=8)
    a = ap.parse_args()
    cfg = Config(csv=a.csv, out=a.out, epochs=a.epochs)
    train, val, names = read_tickets(cfg)
    model = make_model(cfg, len(names))
    Trainer(cfg, model, len(names)).run(train, val)
    os.makedirs(cfg.out, exist_ok=True)
    model.save(os.path.join(cfg.out, "router.keras"))
