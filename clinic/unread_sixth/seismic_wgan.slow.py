"""WGAN-GP for synthetic single-channel seismic traces (used later to pad the rare-event class)."""
import dataclasses
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclasses.dataclass
class GanConfig:
    n_traces: int = 24000
    length: int = 256
    latent: int = 64
    batch: int = 256
    epochs: int = 60
    n_critic: int = 3
    gp_weight: float = 10.0
    noise_start: float = 0.25
    seed: int = 7


def ricker_traces(cfg):
    rng = np.random.default_rng(cfg.seed)
    t = np.linspace(-1.0, 1.0, cfg.length, dtype=np.float32)[None, :]
    out = np.zeros((cfg.n_traces, cfg.length), np.float32)
    for _ in range(5):
        c = rng.uniform(-0.8, 0.8, (cfg.n_traces, 1)).astype(np.float32)
        f = rng.uniform(4.0, 12.0, (cfg.n_traces, 1)).astype(np.float32)
        a = rng.normal(0.0, 1.0, (cfg.n_traces, 1)).astype(np.float32)
        arg = (np.pi * f * (t - c)) ** 2
        out += a * (1.0 - 2.0 * arg) * np.exp(-arg)
    out /= np.abs(out).max(axis=1, keepdims=True) + 1e-6
    return out[..., None]


def make_generator(cfg):
    z = keras.Input((cfg.latent,))
    x = layers.Dense(32 * 128)(z)
    x = layers.Reshape((32, 128))(x)
    for ch in (128, 64, 32):
        x = layers.Conv1DTranspose(ch, 8, strides=2, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.LeakyReLU()(x)
    return keras.Model(z, layers.Conv1D(1, 9, padding="same", activation="tanh")(x))


def make_critic(cfg):
    inp = keras.Input((cfg.length, 1))
    x = inp
    for ch in (64, 128, 256):
        x = layers.Conv1D(ch, 8, strides=2, padding="same")(x)
        x = layers.LeakyReLU()(x)
    return keras.Model(inp, layers.Dense(1)(layers.Flatten()(x)))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = make_generator(cfg)
        self.critic = make_critic(cfg)
        self.g_opt = keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9)
        self.c_opt = keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9)
        self.g_opt.build(self.gen.trainable_variables)
        self.c_opt.build(self.critic.trainable_variables)
        self.w_dist = keras.metrics.Mean()

    def penalty(self, real, fake):
        eps = tf.random.uniform((self.cfg.batch, 1, 1))
        mix = eps * real + (1.0 - eps) * fake
        with tf.GradientTape() as tape:
            tape.watch(mix)
            score = self.critic(mix, training=True)
        g = tape.gradient(score, mix)
        norm = tf.sqrt(tf.reduce_sum(tf.square(g), axis=[1, 2]) + 1e-12)
        return tf.reduce_mean(tf.square(norm - 1.0))

    @tf.function
    def step(self, real, noise_std):
        b = self.cfg.batch
        for _ in range(self.cfg.n_critic):
            fake = self.gen(tf.random.normal((b, self.cfg.latent)), training=True)
            r = real + noise_std * tf.random.normal(tf.shape(real))
            f = fake + noise_std * tf.random.normal(tf.shape(fake))
            with tf.GradientTape() as tape:
                gap = tf.reduce_mean(self.critic(f, training=True)) - tf.reduce_mean(self.critic(r, training=True))
                loss = gap + self.cfg.gp_weight * self.penalty(r, f)
            grads = tape.gradient(loss, self.critic.trainable_variables)
            self.c_opt.apply_gradients(zip(grads, self.critic.trainable_variables))
        with tf.GradientTape() as tape:
            fake = self.gen(tf.random.normal((b, self.cfg.latent)), training=True)
            fake = fake + noise_std * tf.random.normal(tf.shape(fake))
            g_loss = -tf.reduce_mean(self.critic(fake, training=True))
        grads = tape.gradient(g_loss, self.gen.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.gen.trainable_variables))
        self.w_dist.update_state(-gap)


def main():
    cfg = GanConfig()
    tf.random.set_seed(cfg.seed)
    ds = tf.data.Dataset.from_tensor_slices(ricker_traces(cfg))
    ds = ds.shuffle(cfg.n_traces).batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    trainer = Trainer(cfg)
    total = cfg.epochs * (cfg.n_traces // cfg.batch)
    it = 0
    for epoch in range(cfg.epochs):
        t0 = time.time()
        trainer.w_dist.reset_state()
        for real in ds:
            sigma = cfg.noise_start * (1.0 - it / total)
            trainer.step(real, sigma)
            it += 1
        print(f"epoch {epoch:3d}  W={float(trainer.w_dist.result()):.4f}  {time.time() - t0:.1f}s")
    trainer.gen.save("seismic_generator.keras")


if __name__ == "__main__":
    main()
