"""Two-tower retrieval for podcast episodes."""
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf


@dataclass
class Config:
    listeners: int = 2_000_000
    episodes: int = 3_000_000
    dim: int = 64
    batch: int = 1024
    pairs: int = 1_000_000
    rate: float = 0.5
    decay: float = 1e-7
    epochs: int = 3


class Towers(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.people = keras.layers.Embedding(cfg.listeners, cfg.dim)
        self.shows = keras.layers.Embedding(cfg.episodes, cfg.dim)
        self.people.build((None,))
        self.shows.build((None,))
        self.decay = cfg.decay

    def call(self, listener, episode):
        return self.people(listener), self.shows(episode)

    def objective(self, listener, episode):
        p, s = self(listener, episode)
        logits = tf.matmul(p, s, transpose_b=True)
        labels = tf.range(tf.shape(logits)[0])
        match = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        shrink = tf.nn.l2_loss(p) + tf.nn.l2_loss(s)
        return tf.reduce_mean(match) + self.decay * shrink


def listens(cfg):
    rng = np.random.default_rng(70)
    listener = rng.integers(0, cfg.listeners, cfg.pairs).astype(np.int32)
    episode = rng.integers(0, cfg.episodes, cfg.pairs).astype(np.int32)
    ds = tf.data.Dataset.from_tensor_slices((listener, episode)).shuffle(50_000)
    return ds.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    cfg = Config()
    model = Towers(cfg)
    optimizer = keras.optimizers.SGD(cfg.rate)
    average = keras.metrics.Mean()

    @tf.function
    def step(listener, episode):
        with tf.GradientTape() as tape:
            loss = model.objective(listener, episode)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        average.update_state(loss)

    data = listens(cfg)
    for epoch in range(cfg.epochs):
        average.reset_state()
        for listener, episode in data:
            step(listener, episode)
        print(f"epoch {epoch}: {float(average.result()):.4f}")


if __name__ == "__main__":
    main()
