# Marble texture generator for the stone-veneer configurator (32x32 swatches).
# Hinge GAN with a history pool of older fakes, after Shrivastava et al. 2017.
import collections
import gc
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LATENT = 48
BATCH = 24
STEPS = 200


def marble(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.meshgrid(np.linspace(0, 1, 32), np.linspace(0, 1, 32), indexing="ij")
    turb = np.zeros((n, 32, 32))
    for octave in range(4):
        fx, fy = rng.normal(0, 2.0**octave, (2, n, 1, 1))
        phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
        turb += 0.6**octave * np.sin(2 * np.pi * (fx * xx + fy * yy) + phase)
    angle = rng.uniform(0, np.pi, (n, 1, 1))
    along = xx * np.cos(angle) + yy * np.sin(angle)
    veins = np.abs(np.sin(np.pi * (2.5 * along + 0.35 * turb)))
    return (2.0 * np.sqrt(veins) - 1.0)[..., None].astype("float32")


def painter():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(4 * 4 * 64, activation="relu"),
        layers.Reshape((4, 4, 64)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(16, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
    ], name="painter")


def critic():
    return keras.Sequential([
        keras.Input((32, 32, 1)),
        layers.Conv2D(16, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1),
    ], name="critic")


class HistoryPool:
    """The last `size` batches of fakes; the critic sees half new, half old."""

    def __init__(self, size, seed):
        self.size = size
        self.batches = collections.deque()
        self.rng = np.random.default_rng(seed)

    def put(self, fakes):
        self.batches.append(fakes)
        while len(self.batches) > self.size:
            old = self.batches.popleft()
            del old
        gc.collect()

    def mix(self, fakes):
        if not self.batches:
            return fakes
        old = self.batches[int(self.rng.integers(len(self.batches)))]
        half = BATCH // 2
        return tf.concat([fakes[:half], old[half:]], axis=0)


class Studio:
    def __init__(self):
        self.g, self.d = painter(), critic()
        self.g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.d_opt = keras.optimizers.Adam(3e-4, beta_1=0.5)
        self.g_opt.build(self.g.trainable_variables)
        self.d_opt.build(self.d.trainable_variables)

    @tf.function
    def paint(self, z):
        return self.g(z, training=True)

    @tf.function
    def critic_step(self, real, fake):
        with tf.GradientTape() as tape:
            s = self.d(tf.concat([real, fake], axis=0), training=True)
            s_real, s_fake = tf.split(s, 2, axis=0)
            loss = tf.reduce_mean(tf.nn.relu(1.0 - s_real)) + tf.reduce_mean(tf.nn.relu(1.0 + s_fake))
        w = self.d.trainable_variables
        self.d_opt.apply_gradients(zip(tape.gradient(loss, w), w))
        return loss

    @tf.function
    def painter_step(self, z):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.d(self.g(z, training=True), training=True))
        w = self.g.trainable_variables
        self.g_opt.apply_gradients(zip(tape.gradient(loss, w), w))
        return loss


def main():
    keras.utils.set_random_seed(17)
    swatches = marble(2400, 17)
    reals = iter(
        tf.data.Dataset.from_tensor_slices(swatches)
        .shuffle(2400, seed=17).repeat().batch(BATCH, drop_remainder=True).prefetch(4)
    )
    studio = Studio()
    pool = HistoryPool(size=16, seed=17)

    t0 = time.perf_counter()
    for step in range(STEPS):
        z = tf.random.normal([BATCH, LATENT])
        fakes = studio.paint(z)
        d_loss = studio.critic_step(next(reals), pool.mix(fakes))
        g_loss = studio.painter_step(z)
        if step % 2 == 0:
            pool.put(fakes)
        if (step + 1) % 40 == 0:
            print(f"{step + 1:4d}  critic {float(d_loss):.3f}  painter {float(g_loss):+.3f}")
    seconds = time.perf_counter() - t0

    sheet = studio.paint(tf.random.normal([16, LATENT])).numpy()
    print("contrast of a sheet:", round(float(sheet.std()), 3), "of the stone:", round(float(swatches.std()), 3))
    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
