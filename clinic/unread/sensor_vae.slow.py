"""Variational autoencoder for sensor snapshots."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    width: int = 128
    latent: int = 16
    rows: int = 200_000
    batch: int = 512
    epochs: int = 20
    warmup: int = 6000


def anneal(cfg, seen):
    return min(1.0, 0.01 + seen / cfg.warmup)


class Vae(tf.keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.encode = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(256, activation="relu"),
                tf.keras.layers.Dense(128, activation="relu"),
                tf.keras.layers.Dense(2 * cfg.latent),
            ]
        )
        self.decode = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(128, activation="relu"),
                tf.keras.layers.Dense(256, activation="relu"),
                tf.keras.layers.Dense(cfg.width),
            ]
        )

    def call(self, x):
        mean, logvar = tf.split(self.encode(x), 2, axis=-1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decode(z), mean, logvar


class Trainer:
    def __init__(self, cfg):
        self.model = Vae(cfg)
        self.model(tf.zeros((1, cfg.width)))
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)

    @tf.function
    def step(self, x, weight):
        with tf.GradientTape() as tape:
            recon, mean, logvar = self.model(x, training=True)
            error = tf.reduce_mean(tf.reduce_sum(tf.square(recon - x), -1))
            kl = -0.5 * tf.reduce_mean(
                tf.reduce_sum(1 + logvar - tf.square(mean) - tf.exp(logvar), -1)
            )
            loss = error + weight * kl
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


def main():
    cfg = Config()
    rows = np.random.default_rng(2).standard_normal((cfg.rows, cfg.width), dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(10_000)
    data = data.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    trainer, seen = Trainer(cfg), 0
    for epoch in range(cfg.epochs):
        for batch in data:
            loss = trainer.step(batch, anneal(cfg, seen))
            seen += 1
        print(f"epoch {epoch}: {float(loss):.3f}")


if __name__ == "__main__":
    main()
