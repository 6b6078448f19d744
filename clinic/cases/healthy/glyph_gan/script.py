"""Small DCGAN that draws ring-shaped glyphs. Plain Python loop over epochs and batches."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

NOISE, BATCH, EPOCHS = 32, 64, 6


def glyphs(n=1536, size=32, seed=90):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    cx, cy = rng.uniform(12, 20, (2, n, 1, 1))
    r = rng.uniform(5, 10, (n, 1, 1))
    d = np.abs(np.hypot(xx - cx, yy - cy) - r)
    return (2.0 * np.exp(-d**2) - 1.0).astype("float32")[..., None]


def make_generator():
    return keras.Sequential([
        layers.Input((NOISE,)),
        layers.Dense(8 * 8 * 48),
        layers.LeakyReLU(0.2),
        layers.Reshape((8, 8, 48)),
        layers.Conv2DTranspose(48, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
    ])


def make_critic():
    return keras.Sequential([
        layers.Input((32, 32, 1)),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Conv2D(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Flatten(),
        layers.Dense(1),
    ])


class Duel:
    def __init__(self, generator, critic):
        self.g, self.c = generator, critic
        self.g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.c_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.g_opt.build(generator.trainable_variables)
        self.c_opt.build(critic.trainable_variables)
        self.meters = {k: keras.metrics.Mean() for k in ("g", "c")}
        for name in ("play",):
            setattr(self, name, tf.function(getattr(self, name)))

    def bce(self, target, logits):
        labels = tf.fill(tf.shape(logits), target)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))

    def improve(self, opt, net, tape, loss):
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    def play(self, real):
        z = tf.random.normal((BATCH, NOISE))
        with tf.GradientTape() as g_tape, tf.GradientTape() as c_tape:
            fake = self.g(z, training=True)
            on_real = self.c(real, training=True)
            on_fake = self.c(fake, training=True)
            g_loss = self.bce(1.0, on_fake)
            c_loss = self.bce(0.9, on_real) + self.bce(0.0, on_fake)
        self.meters["g"].update_state(self.improve(self.g_opt, self.g, g_tape, g_loss))
        self.meters["c"].update_state(self.improve(self.c_opt, self.c, c_tape, c_loss))


if __name__ == "__main__":
    keras.utils.set_random_seed(4)
    images = tf.data.Dataset.from_tensor_slices(glyphs()).cache().shuffle(1536)
    images = images.batch(BATCH, drop_remainder=True).prefetch(2)
    duel = Duel(make_generator(), make_critic())
    t0 = time.time()
    for epoch in range(EPOCHS):
        for meter in duel.meters.values():
            meter.reset_state()
        for real in images:
            duel.play(real)
        print("epoch", epoch, {k: round(float(m.result()), 4) for k, m in duel.meters.items()})
    sample = duel.g(tf.random.normal((4, NOISE)), training=False)
    print("sample range %.2f %.2f" % (float(tf.reduce_min(sample)), float(tf.reduce_max(sample))))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))
