import numpy as np
import tensorflow as tf
from keras import Input, Sequential, layers, optimizers, utils

utils.set_random_seed(2)
LATENT, SIDE, BATCH = 24, 16, 32


def glyphs(n):
    rng = np.random.default_rng(2)
    out = np.zeros((n, SIDE, SIDE, 1), "float32")
    for g in out:
        r, c = rng.integers(2, SIDE - 2, 2)
        g[r, :, 0] = 1
        g[:, c, 0] = 1
    return out * 2 - 1


def generator():
    return Sequential([
        Input((LATENT,)), layers.Dense(4 * 4 * 16), layers.Reshape((4, 4, 16)),
        layers.BatchNormalization(), layers.LeakyReLU(),
        layers.Conv2DTranspose(8, 3, strides=2, padding="same"),
        layers.BatchNormalization(), layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="tanh"),
    ])


def critic():
    return Sequential([
        Input((SIDE, SIDE, 1)),
        layers.Conv2D(8, 3, strides=2, padding="same"), layers.LeakyReLU(),
        layers.Conv2D(16, 3, strides=2, padding="same"), layers.LeakyReLU(),
        layers.Flatten(), layers.Dense(1),
    ])


class GAN:
    def __init__(self):
        self.g, self.d = generator(), critic()
        self.og, self.od = optimizers.Adam(2e-4, 0.5), optimizers.Adam(2e-4, 0.5)
        self.og.build(self.g.trainable_variables)
        self.od.build(self.d.trainable_variables)

    def critic_update(self, real):
        fake = self.g(tf.random.normal([BATCH, LATENT]), training=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-self.d(real)) + tf.nn.softplus(self.d(fake)))
        w = self.d.trainable_variables
        self.od.apply(tape.gradient(loss, w), w)
        return loss

    def generator_update(self):
        with tf.GradientTape() as tape:
            fake = self.g(tf.random.normal([BATCH, LATENT]), training=True)
            loss = tf.reduce_mean(tf.nn.softplus(-self.d(fake)))
        w = self.g.trainable_variables
        self.og.apply(tape.gradient(loss, w), w)
        return loss

    def play(self, real):
        return self.critic_update(real), self.generator_update()


gan = GAN()
ds = tf.data.Dataset.from_tensor_slices(glyphs(BATCH * 70)).batch(BATCH).prefetch(2)
for epoch in range(3):
    for real in ds:
        dl, gl = gan.play(real)
    print(epoch, "critic %.3f generator %.3f" % (float(dl), float(gl)))
