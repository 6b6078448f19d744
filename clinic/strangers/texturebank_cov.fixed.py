"""Fabric texture recognition with second-order (covariance) pooling over conv features."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers


class SecondOrderPool(layers.Layer):
    """Signed-sqrt covariance descriptor of a feature map."""

    def __init__(self, eps=1e-5, **kw):
        super().__init__(**kw)
        self.eps = eps

    def describe(self, fmap):
        c = fmap.shape[-1]
        f = tf.reshape(fmap, (-1, fmap.shape[1] * fmap.shape[2], c))
        f = f - tf.reduce_mean(f, axis=1, keepdims=True)
        cov = tf.matmul(f, f, transpose_a=True) / tf.cast(tf.shape(f)[1], f.dtype)
        return tf.reshape(tf.sign(cov) * tf.sqrt(tf.abs(cov) + self.eps), (-1, c * c))

    def call(self, x):
        return self.describe(x)

    def compute_output_shape(self, shape):
        return (shape[0], shape[-1] ** 2)


def fabrics(n, classes=8, size=24, seed=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    yy, xx = np.mgrid[0:size, 0:size]
    angle = (y * np.pi / classes)[:, None, None]
    phase = rng.uniform(0, 6.28, (n, 1, 1))
    img = np.sin(0.9 * (xx * np.cos(angle) + yy * np.sin(angle)) + phase)
    img = img + rng.normal(scale=0.6, size=img.shape)
    return img[..., None].astype("float32"), y.astype("int32")


def network(classes=8):
    i = keras.Input((24, 24, 1))
    h = layers.Conv2D(12, 5, strides=2, padding="same", activation="relu")(i)
    h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(h)
    h = SecondOrderPool()(h)
    return keras.Model(i, layers.Dense(classes)(h))


def train():
    x, y = fabrics(3840)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(3840).batch(128).prefetch(tf.data.AUTOTUNE)
    m = network()
    m.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
    m.fit(ds, epochs=12, verbose=2)


train()
