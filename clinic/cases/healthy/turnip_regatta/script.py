"""GAN for regatta wind fields (24x24), losses noted in every step."""
import time
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE, Z, BATCH = 24, 48, 64


def wind(n):
    g = np.random.default_rng(30)
    a, b, c = g.uniform(0.1, 0.8, (3, n, 1, 1))
    i, j = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    return np.sin(a * i + b * j + 6 * c)[..., None].astype(np.float32)


gen = keras.Sequential([
    keras.Input((Z,)), layers.Dense(6 * 6 * 128, activation="relu"), layers.Reshape((6, 6, 128)),
    layers.Conv2DTranspose(96, 4, strides=2, padding="same", activation="relu"),
    layers.Conv2DTranspose(64, 4, strides=2, padding="same", activation="relu"),
    layers.Conv2D(1, 3, padding="same", activation="tanh")])
dis = keras.Sequential([
    keras.Input((SIDE, SIDE, 1)), layers.Conv2D(64, 4, strides=2, padding="same"), layers.LeakyReLU(0.2),
    layers.Conv2D(128, 4, strides=2, padding="same"), layers.LeakyReLU(0.2), layers.Flatten(), layers.Dense(1)])


class WindGAN(keras.Model):
    def __init__(self, g, d):
        super().__init__()
        self.g, self.d = g, d

    def compile(self, og, od):
        super().compile(jit_compile=False)
        self.og, self.od = og, od

    def train_step(self, real):
        z = tf.random.normal([BATCH, Z])
        with tf.GradientTape(persistent=True) as tape:
            fake = self.g(z, training=True)
            dr, df = self.d(real, training=True), self.d(fake, training=True)
            ld = tf.reduce_mean(tf.nn.softplus(-dr) + tf.nn.softplus(df))
            lg = tf.reduce_mean(tf.nn.softplus(-df))
        self.od.apply_gradients(zip(tape.gradient(ld, self.d.trainable_variables), self.d.trainable_variables))
        self.og.apply_gradients(zip(tape.gradient(lg, self.g.trainable_variables), self.g.trainable_variables))
        return {"ld": ld, "lg": lg}


class Logbook(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        self.rows.append((batch, float(logs["ld"]), float(logs["lg"])))


ds = tf.data.Dataset.from_tensor_slices(wind(1280)).cache().shuffle(1280).repeat().batch(BATCH, drop_remainder=True).prefetch(2)
gan, book = WindGAN(gen, dis), Logbook()
gan.compile(keras.optimizers.Adam(2e-4, 0.5), keras.optimizers.Adam(2e-4, 0.5))
gan.fit(ds, steps_per_epoch=2, verbose=0)
t = time.perf_counter()
gan.fit(ds, steps_per_epoch=180, verbose=2, callbacks=[book])
t = time.perf_counter() - t
print("rows", len(book.rows), book.rows[-1])
print("WORK", 180 * BATCH)
print("TRAIN_SECONDS", round(t, 3))
