"""One-second rain / surf / wind textures from noise, WaveGAN style.

    python foley_gan.py --clips data/foley_16k.npy --out runs/foley
"""
import argparse
import logging
import pathlib
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers

log = logging.getLogger("foley")


@dataclass
class Config:
    clips: str = "data/foley_16k.npy"
    out: str = "runs/foley"
    latent: int = 128
    width: int = 64
    batch: int = 64
    epochs: int = 300
    d_lr: float = 2e-4
    g_lr: float = 1e-4
    gp_weight: float = 10.0
    seed: int = 11
    runtime: dict = field(default_factory=lambda: {"run_eagerly": True, "steps_per_execution": 1})


def make_generator(cfg):
    w = cfg.width
    z = keras.Input((cfg.latent,))
    x = layers.Dense(16 * w * 16)(z)
    x = layers.Reshape((16, w * 16))(x)
    x = layers.ReLU()(x)
    for mult in (8, 4, 2, 1):
        x = layers.Conv1DTranspose(w * mult, 24, strides=4, padding="same")(x)
        x = layers.ReLU()(x)
    x = layers.Conv1DTranspose(1, 24, strides=4, padding="same", activation="tanh")(x)
    return keras.Model(z, x, name="generator")


def make_critic(cfg):
    w = cfg.width
    wav = keras.Input((16384, 1))
    x = wav
    for mult in (1, 2, 4, 8, 16):
        x = layers.Conv1D(w * mult, 24, strides=4, padding="same")(x)
        x = layers.LeakyReLU(0.2)(x)
    x = layers.Flatten()(x)
    return keras.Model(wav, layers.Dense(1)(x), name="critic")


class FoleyGAN(keras.Model):
    def __init__(self, generator, critic, latent, gp_weight):
        super().__init__()
        self.generator = generator
        self.critic = critic
        self.latent = latent
        self.gp_weight = gp_weight
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")
        self.gp = keras.metrics.Mean(name="gp")

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss, self.gp]

    def compile(self, d_optimizer, g_optimizer, **kwargs):
        super().compile(**kwargs)
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer

    def penalty(self, real, fake):
        t = tf.random.uniform([tf.shape(real)[0], 1, 1])
        mid = real + t * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mid)
            score = self.critic(mid, training=True)
        g = tape.gradient(score, mid)
        norm = tf.sqrt(tf.reduce_sum(tf.square(g), axis=[1, 2]) + 1e-12)
        return tf.reduce_mean(tf.square(norm - 1.0))

    def train_step(self, pcm):
        real = tf.cast(pcm, tf.float32)[..., None] / 32768.0
        n = tf.shape(real)[0]

        fake = self.generator(tf.random.normal([n, self.latent]), training=True)
        with tf.GradientTape() as tape:
            gp = self.penalty(real, fake)
            d_loss = (tf.reduce_mean(self.critic(fake, training=True))
                      - tf.reduce_mean(self.critic(real, training=True))
                      + self.gp_weight * gp)
        grads = tape.gradient(d_loss, self.critic.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.critic.trainable_weights))

        with tf.GradientTape() as tape:
            fake = self.generator(tf.random.normal([n, self.latent]), training=True)
            g_loss = -tf.reduce_mean(self.critic(fake, training=True))
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))

        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        self.gp.update_state(gp)
        return {m.name: m.result() for m in self.metrics}


class Listen(keras.callbacks.Callback):
    """Write a few fixed-noise samples now and then, so that we can hear progress."""

    def __init__(self, out, latent, every=10):
        super().__init__()
        self.out = pathlib.Path(out)
        self.noise = tf.random.stateless_normal([8, latent], seed=[3, 1])
        self.every = every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        for i, wav in enumerate(self.model.generator(self.noise, training=False)):
            tf.io.write_file(str(self.out / f"e{epoch + 1:04d}_{i}.wav"),
                             tf.audio.encode_wav(wav, 16000))
        self.model.generator.save_weights(str(self.out / "generator.weights.h5"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips", default=Config.clips)
    p.add_argument("--out", default=Config.out)
    p.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(**vars(p.parse_args()))
    logging.basicConfig(level=logging.INFO)
    keras.utils.set_random_seed(cfg.seed)
    pathlib.Path(cfg.out).mkdir(parents=True, exist_ok=True)

    pcm = np.load(cfg.clips)  # int16, (clips, 16384)
    log.info("%d clips, %.1f hours", len(pcm), pcm.size / 16000 / 3600)
    ds = (tf.data.Dataset.from_tensor_slices(pcm)
          .shuffle(len(pcm))
          .batch(cfg.batch, drop_remainder=True)
          .prefetch(tf.data.AUTOTUNE))

    gan = FoleyGAN(make_generator(cfg), make_critic(cfg), cfg.latent, cfg.gp_weight)
    gan.compile(keras.optimizers.Adam(cfg.d_lr, beta_1=0.5, beta_2=0.9),
                keras.optimizers.Adam(cfg.g_lr, beta_1=0.5, beta_2=0.9),
                **cfg.runtime)
    gan.fit(ds, epochs=cfg.epochs, verbose=2,
            callbacks=[Listen(cfg.out, cfg.latent),
                       keras.callbacks.CSVLogger(f"{cfg.out}/log.csv"),
                       keras.callbacks.TerminateOnNaN()])


if __name__ == "__main__":
    main()
