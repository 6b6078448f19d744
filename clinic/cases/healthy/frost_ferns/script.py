# Growing frost ferns on a window: a small GAN.
# python frost_ferns.py    -> samples go to a temporary folder as .npy
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIZE = 24
LATENT = 48
BATCH = 48
STEPS = 150
SAVE_EVERY = 50


def real_frost(n, rng):
    """Interfering waves of ice along preferred directions, clipped to [-1, 1]."""
    i, j = np.mgrid[0:SIZE, 0:SIZE].astype("float32") / SIZE
    picture = np.zeros((n, SIZE, SIZE), dtype="float32")
    for _ in range(3):
        angle = rng.integers(0, 6, size=(n, 1, 1)) * (np.pi / 3)
        pitch = rng.uniform(3.0, 7.0, size=(n, 1, 1))
        phase = rng.uniform(0.0, 2 * np.pi, size=(n, 1, 1))
        picture += np.cos(2 * np.pi * pitch * (i * np.cos(angle) + j * np.sin(angle)) + phase).astype("float32")
    return np.clip(picture, -1.0, 1.0)[..., None]


def make_generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(6 * 6 * 64),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Reshape((6, 6, 64)),
        layers.Conv2DTranspose(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(1, 3, padding="same", activation="tanh"),
    ], name="generator")


def make_critic():
    return keras.Sequential([
        keras.Input((SIZE, SIZE, 1)),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(96, 3, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1),
    ], name="critic")


class FrostGAN:
    def __init__(self):
        self.gen, self.critic = make_generator(), make_critic()
        self.gen_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.critic_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.gen_opt.build(self.gen.trainable_variables)
        self.critic_opt.build(self.critic.trainable_variables)

    @tf.function
    def step(self, real):
        noise = tf.random.normal((BATCH, LATENT))
        with tf.GradientTape() as g_tape, tf.GradientTape() as c_tape:
            fake = self.gen(noise, training=True)
            on_real = self.critic(real, training=True)
            on_fake = self.critic(fake, training=True)
            c_loss = tf.reduce_mean(tf.nn.softplus(-on_real) + tf.nn.softplus(on_fake))
            g_loss = tf.reduce_mean(tf.nn.softplus(-on_fake))
        g_vars, c_vars = self.gen.trainable_variables, self.critic.trainable_variables
        g_grads = g_tape.gradient(g_loss, g_vars)
        c_grads = c_tape.gradient(c_loss, c_vars)
        self.gen_opt.apply_gradients(zip(g_grads, g_vars))
        self.critic_opt.apply_gradients(zip(c_grads, c_vars))
        return g_loss, c_loss


def main():
    keras.utils.set_random_seed(31)
    frost = real_frost(2048, np.random.default_rng(31))
    panes = tf.data.Dataset.from_tensor_slices(frost).cache().shuffle(2048, seed=2)
    panes = panes.repeat().batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    gan = FrostGAN()
    folder = tempfile.mkdtemp(prefix="frost_")
    wall = tf.random.normal((16, LATENT), seed=4)

    t0 = time.perf_counter()
    for n, real in enumerate(panes.take(STEPS), start=1):
        g_loss, c_loss = gan.step(real)
        if n % 10 == 0:
            print(f"{n:4d}  generator {g_loss.numpy():.3f}  critic {c_loss.numpy():.3f}")
        if n % SAVE_EVERY == 0:
            np.save(os.path.join(folder, f"panes_{n}.npy"), gan.gen(wall, training=False).numpy())
    seconds = time.perf_counter() - t0
    print("samples in", folder, sorted(os.listdir(folder)))
    print("TRAIN_SECONDS %.2f" % seconds)


if __name__ == "__main__":
    main()
