"""Small convolutional GAN on synthetic glyphs."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

NOISE, BATCH = 64, 48


def glyphs(n=2400):
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:28, 0:28]
    cx, cy, r = rng.uniform(9, 19, (3, n, 1, 1)) * np.array([1, 1, 0.45]).reshape(3, 1, 1, 1)
    d = np.sqrt((x - cx) ** 2 + (y - cy) ** 2)
    return np.where(np.abs(d - r) < 1.5, 1.0, -1.0).astype("float32")[..., None]


generator = keras.Sequential(
    [
        keras.Input((NOISE,)),
        layers.Dense(7 * 7 * 96),
        layers.LeakyReLU(),
        layers.Reshape((7, 7, 96)),
        layers.Conv2DTranspose(64, 5, 2, "same"),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 5, 2, "same", activation="tanh"),
    ]
)
critic = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(48, 5, 2, "same"),
        layers.LeakyReLU(),
        layers.Conv2D(96, 5, 2, "same"),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(1),
    ]
)


class GAN(keras.Model):
    def __init__(self, generator, critic):
        super().__init__()
        self.generator, self.critic = generator, critic
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    def compile(self, g_opt, d_opt):
        super().compile()
        self.g_opt, self.d_opt = g_opt, d_opt

    def train_step(self, real):
        n = tf.shape(real)[0]
        noise = tf.random.normal((n, NOISE))
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = self.generator(noise, training=True)
            r = self.critic(real, training=True)
            f = self.critic(fake, training=True)
            d_loss = self.bce(tf.ones_like(r), r) + self.bce(tf.zeros_like(f), f)
            g_loss = self.bce(tf.ones_like(f), f)
        gw, dw = self.generator.trainable_weights, self.critic.trainable_weights
        self.g_opt.apply_gradients(zip(gt.gradient(g_loss, gw), gw))
        self.d_opt.apply_gradients(zip(dt.gradient(d_loss, dw), dw))
        return {"g": g_loss, "d": d_loss}


keras.utils.set_random_seed(8)
ds = tf.data.Dataset.from_tensor_slices(glyphs()).cache().shuffle(2400)
ds = ds.batch(BATCH, drop_remainder=True).prefetch(2)
gan = GAN(generator, critic)
gan.compile(keras.optimizers.Adam(2e-4, 0.5), keras.optimizers.Adam(2e-4, 0.5))
h = gan.fit(ds, epochs=2, verbose=2)
print("generator loss", h.history["g"][-1], "critic loss", h.history["d"][-1])
