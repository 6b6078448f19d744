"""Variational autoencoder for stitched galaxy spectra, with an annealed KL term."""
import math
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Config:
    pixels: int = 768
    latent: int = 12
    width: int = 320
    blocks: int = 4
    batch_size: int = 128
    epochs: int = 9
    spectra: int = 2560
    beta_max: float = 0.5
    jitter: float = 0.05
    lr: float = 5e-4
    seed: int = 11


def synthesize(cfg):
    rng = np.random.default_rng(cfg.seed)
    grid = np.linspace(0.0, 1.0, cfg.pixels, dtype=np.float32)
    slope = rng.normal(0, 0.6, (cfg.spectra, 1)).astype(np.float32)
    flux = 1.0 + slope * (grid - 0.5)
    z = rng.uniform(0, 0.15, (cfg.spectra, 1)).astype(np.float32)
    for rest in (0.2, 0.34, 0.55, 0.71):
        strength = rng.gamma(2.0, 0.4, (cfg.spectra, 1)).astype(np.float32)
        flux += strength * np.exp(-((grid - rest * (1 + z)) / 0.008) ** 2)
    return flux + rng.normal(0, 0.03, flux.shape).astype(np.float32)


class Residual(layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.a = layers.Dense(width, activation="relu")
        self.b = layers.Dense(width)

    def call(self, x):
        return x + self.b(self.a(x))


class SpectrumVAE(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.latent = cfg.latent
        self.encoder = keras.Sequential(
            [layers.Dense(cfg.width, activation="relu")]
            + [Residual(cfg.width) for _ in range(cfg.blocks)]
            + [layers.Dense(2 * cfg.latent)])
        self.decoder = keras.Sequential(
            [layers.Dense(cfg.width, activation="relu")]
            + [Residual(cfg.width) for _ in range(cfg.blocks)]
            + [layers.Dense(cfg.pixels)])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=-1)
        code = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(code), mean, logvar


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = SpectrumVAE(cfg)
        self.model(tf.zeros((1, cfg.pixels)))
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(self.model.trainable_variables)

    def schedule(self, epoch):
        progress = (epoch + 1) / self.cfg.epochs
        ramp = 0.5 * (1 - math.cos(math.pi * progress))
        return {"beta": self.cfg.beta_max * ramp,
                "jitter": self.cfg.jitter * (1 - progress)}

    @tf.function
    def step(self, flux, hp):
        noisy = flux + hp["jitter"] * tf.random.normal(tf.shape(flux))
        with tf.GradientTape() as tape:
            out, mean, logvar = self.model(noisy, training=True)
            rec = tf.reduce_mean(tf.square(out - flux))
            kl = -0.5 * tf.reduce_mean(1 + logvar - mean ** 2 - tf.exp(logvar))
            loss = rec + hp["beta"] * kl
        variables = self.model.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def fit(self, dataset):
        seen = 0
        for epoch in range(self.cfg.epochs):
            hp = self.schedule(epoch)
            total = tf.zeros(())
            for n, flux in enumerate(dataset):
                total += self.step(flux, hp)
                seen += self.cfg.batch_size
            if epoch % 2 == 0:
                print(f"epoch {epoch + 1}: loss {float(total) / (n + 1):.4f}  beta {float(hp['beta']):.3f}")
        return seen


def main():
    cfg = Config()
    keras.utils.set_random_seed(cfg.seed)
    flux = synthesize(cfg)
    flux = flux.reshape(-1, cfg.batch_size, cfg.pixels)
    dataset = tf.data.Dataset.from_tensor_slices(flux).shuffle(len(flux)).prefetch(2)
    trainer = Trainer(cfg)
    start = time.perf_counter()
    seen = trainer.fit(dataset)
    seconds = time.perf_counter() - start
    print("WORK", seen)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
