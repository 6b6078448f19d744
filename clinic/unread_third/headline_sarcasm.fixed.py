"""Sarcasm in news headlines: a small transformer encoder and a hand-written trainer."""
from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class TrainArgs:
    vocab: int = 12_000
    max_len: int = 48
    dim: int = 128
    heads: int = 4
    batch_size: int = 64
    total_steps: int = 4_000
    eval_steps: int = 1_000
    lr: float = 3e-4


def corpus(args: TrainArgs, n: int, seed: int):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, args.vocab, (n, args.max_len)).astype("int32")
    tokens[np.arange(args.max_len) >= rng.integers(6, args.max_len, (n, 1))] = 0
    labels = (tokens[:, 0] % 2).astype("float32")
    return tokens, labels


def encoder(args: TrainArgs) -> keras.Model:
    ids = keras.Input((args.max_len,), dtype="int32")
    x = layers.Embedding(args.vocab, args.dim)(ids)
    for _ in range(2):
        a = layers.MultiHeadAttention(args.heads, args.dim // args.heads)(x, x)
        x = layers.LayerNormalization()(x + a)
        f = layers.Dense(args.dim)(layers.Dense(4 * args.dim, activation="gelu")(x))
        x = layers.LayerNormalization()(x + f)
    return keras.Model(ids, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


class Trainer:
    def __init__(self, args: TrainArgs, model: keras.Model, train_ds, eval_ds):
        self.args, self.model = args, model
        self.train_ds, self.eval_ds = train_ds, eval_ds
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
        self.optimizer = keras.optimizers.Adam(args.lr)
        self.optimizer.build(model.trainable_variables)
        self.accuracy = keras.metrics.BinaryAccuracy()
        self.train_step = tf.function(self._train_step)
        self.eval_step = tf.function(self._eval_step)

    def _train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y[:, None], self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))

    def _eval_step(self, x, y):
        self.accuracy.update_state(y[:, None], tf.sigmoid(self.model(x, training=False)))

    def evaluate(self) -> float:
        self.accuracy.reset_state()
        for x, y in self.eval_ds:
            self.eval_step(x, y)
        return float(self.accuracy.result())

    def train(self) -> None:
        for step, (x, y) in enumerate(self.train_ds.take(self.args.total_steps), 1):
            self.train_step(x, y)
            if step % self.args.eval_steps == 0:
                print(f"step {step}: eval accuracy {self.evaluate():.4f}")


def main() -> None:
    args = TrainArgs()
    train = tf.data.Dataset.from_tensor_slices(corpus(args, 30_000, 0)).shuffle(30_000).repeat()
    train = train.batch(args.batch_size).prefetch(tf.data.AUTOTUNE)
    held_out = tf.data.Dataset.from_tensor_slices(corpus(args, 16_384, 1))
    held_out = held_out.batch(256).cache().prefetch(tf.data.AUTOTUNE)
    Trainer(args, encoder(args), train, held_out).train()


if __name__ == "__main__":
    main()
