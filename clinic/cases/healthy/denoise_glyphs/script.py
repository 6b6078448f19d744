"""Small diffusion model of glyphs: predicts the noise that was mixed in, keeps an average of its weights."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def glyphs(n, seed=0):
    r = np.random.default_rng(seed)
    img = np.zeros((n, 24, 24, 1), "float32")
    for _ in range(3):
        row, col = r.integers(2, 20, (2, n))
        tall = r.random(n) < 0.5
        yy, xx = np.mgrid[:24, :24]
        h, w = np.where(tall, 9, 2), np.where(tall, 2, 9)
        hit = ((yy >= row[:, None, None]) & (yy < (row + h)[:, None, None])
               & (xx >= col[:, None, None]) & (xx < (col + w)[:, None, None]))
        img[hit] = 1.0
    return img * 2 - 1


def noise_net(base=32):
    x, t = keras.Input((24, 24, 1)), keras.Input((1,))
    e = layers.Dense(base * 2, activation="relu")(t)
    a = layers.Conv2D(base, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(base * 2, 3, strides=2, padding="same", activation="relu")(a)
    b = layers.Add()([b, layers.Reshape((1, 1, base * 2))(e)])
    b = layers.Conv2D(base * 2, 3, padding="same", activation="relu")(b)
    u = layers.UpSampling2D()(b)
    u = layers.Conv2D(base, 3, padding="same", activation="relu")(layers.Concatenate()([u, a]))
    return keras.Model([x, t], layers.Conv2D(1, 3, padding="same")(u))


class Diffusion(keras.Model):
    def __init__(self):
        super().__init__()
        self.net = noise_net()
        self.loss_mean = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_mean]

    def train_step(self, clean):
        n = tf.shape(clean)[0]
        t = tf.random.uniform([n, 1])
        noise = tf.random.normal(tf.shape(clean))
        keep = tf.cos(t * np.pi / 2)[:, :, None, None]
        mixed = keep * clean + tf.sqrt(1 - keep ** 2) * noise
        with tf.GradientTape() as tape:
            loss = self.compute_loss(None, noise, self.net([mixed, t], training=True))
        w = self.net.trainable_variables
        self.optimizer.apply(tape.gradient(loss, w), w)
        self.loss_mean.update_state(loss)
        return {"loss": self.loss_mean.result()}


if __name__ == "__main__":
    data = tf.data.Dataset.from_tensor_slices(glyphs(2048)).shuffle(2048).batch(32, drop_remainder=True).prefetch(2)
    model = Diffusion()
    model.compile(keras.optimizers.Adam(1e-3), loss="mse")
    model.fit(data, epochs=2, verbose=2)
