"""Matrix factorisation for an online bookshop: 3M readers, 400k titles."""
from typing import Tuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

READERS = 3_000_000
TITLES = 400_000
DIM = 32
BATCH = 2048
REG = 1e-6


class Factors(keras.Model):
    def __init__(self):
        super().__init__()
        init = keras.initializers.RandomNormal(stddev=0.05)
        self.readers = keras.layers.Embedding(READERS, DIM, embeddings_initializer=init)
        self.titles = keras.layers.Embedding(TITLES, DIM, embeddings_initializer=init)
        self.bias = keras.layers.Embedding(TITLES, 1, embeddings_initializer="zeros")

    def call(self, pair):
        u = self.readers(pair[:, 0])
        v = self.titles(pair[:, 1])
        b = self.bias(pair[:, 1])[:, 0]
        return tf.reduce_sum(u * v, axis=-1) + b, u, v


def ratings(n: int = 2_000_000) -> Tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(19)
    pair = np.stack([rng.integers(0, READERS, n),
                     ((TITLES - 1) * rng.power(0.4, n)).astype(np.int64)], axis=1)
    stars = rng.integers(1, 6, n).astype(np.float32)
    return pair.astype(np.int32), (stars - 3.0) / 2.0


def input_fn(pair: np.ndarray, stars: np.ndarray) -> tf.data.Dataset:
    ds = tf.data.Dataset.from_tensor_slices((pair, stars))
    ds = ds.batch(BATCH, drop_remainder=True).cache().shuffle(200)
    return ds.prefetch(tf.data.AUTOTUNE)


def main(epochs: int = 5) -> None:
    model = Factors()
    model(tf.zeros((1, 2), tf.int32))
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build(model.trainable_variables)
    mean_loss = keras.metrics.Mean()

    @tf.function
    def train_step(pair, stars):
        with tf.GradientTape() as tape:
            score, u, v = model(pair)
            loss = tf.reduce_mean(tf.square(score - stars))
            loss += REG * tf.nn.l2_loss(model.readers.embeddings)
            loss += REG * tf.nn.l2_loss(model.titles.embeddings)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        mean_loss.update_state(loss)

    ds = input_fn(*ratings())
    for epoch in range(epochs):
        for pair, stars in ds:
            train_step(pair, stars)
        print(f"epoch {epoch}: {float(mean_loss.result()):.4f}")
        mean_loss.reset_state()


if __name__ == "__main__":
    main()
