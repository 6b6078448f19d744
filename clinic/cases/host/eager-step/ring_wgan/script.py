import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import time
from dataclasses import dataclass
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclass
class Config:
    latent: int = 8
    batch: int = 128
    n_critic: int = 4
    gp: float = 10.0
    iters: int = 30
    modes: int = 10


def ring_of_gaussians(n, modes, rng):
    k = rng.integers(0, modes, n)
    ang = 2 * np.pi * k / modes
    pts = np.stack([np.cos(ang), np.sin(ang)], 1) + 0.03 * rng.normal(size=(n, 2))
    return pts.astype("float32")


def mlp(n_in, n_out, name):
    return keras.Sequential([layers.Input((n_in,)), layers.Dense(128), layers.LeakyReLU(0.2),
                             layers.Dense(128), layers.LeakyReLU(0.2), layers.Dense(128),
                             layers.LeakyReLU(0.2), layers.Dense(n_out)], name=name)


class WGANTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = mlp(cfg.latent, 2, "generator")
        self.critic = mlp(2, 1, "critic")
        self.g_opt = keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)
        self.c_opt = keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)
        self.g_opt.build(self.gen.trainable_variables)
        self.c_opt.build(self.critic.trainable_variables)

    def penalty(self, real, fake):
        eps = tf.random.uniform((tf.shape(real)[0], 1))
        mix = eps * real + (1 - eps) * fake
        with tf.GradientTape() as t:
            t.watch(mix)
            score = self.critic(mix, training=True)
        g = t.gradient(score, mix)
        return tf.reduce_mean((tf.sqrt(tf.reduce_sum(g ** 2, 1) + 1e-8) - 1.0) ** 2)

    def critic_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], self.cfg.latent))
        fake = self.gen(z, training=True)
        with tf.GradientTape() as tape:
            loss = (tf.reduce_mean(self.critic(fake, training=True))
                    - tf.reduce_mean(self.critic(real, training=True))
                    + self.cfg.gp * self.penalty(real, fake))
        v = self.critic.trainable_variables
        self.c_opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss

    def generator_step(self):
        z = tf.random.normal((self.cfg.batch, self.cfg.latent))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.critic(self.gen(z, training=True), training=True))
        v = self.gen.trainable_variables
        self.g_opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss


def main():
    cfg = Config()
    rng = np.random.default_rng(11)
    data = ring_of_gaussians(60000, cfg.modes, rng)
    stream = iter(tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(8192).batch(cfg.batch).prefetch(4))
    gan = WGANTrainer(cfg)
    start = time.time()
    for it in range(cfg.iters):
        for _ in range(cfg.n_critic):
            c_loss = gan.critic_step(next(stream))
        g_loss = gan.generator_step()
        if it % 10 == 0:
            print("iter %4d critic %.3f gen %.3f" % (it, c_loss, g_loss))
    elapsed = time.time() - start
    print("WORK", cfg.iters)
    print("TRAIN_SECONDS %.3f" % elapsed)


if __name__ == "__main__":
    main()
