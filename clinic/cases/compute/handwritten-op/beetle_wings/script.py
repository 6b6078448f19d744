"""Bilinear CNN for beetle elytra: second-order pooling of feature maps, fine-grained classes."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

CLASSES = 6
SIDE = 32
BATCH = 96


def specimens(n, seed=14):
    rng = np.random.default_rng(seed)
    k = rng.integers(0, CLASSES, n)
    y, x = np.mgrid[:SIDE, :SIDE]
    stripes = np.sin(x[None] * (0.3 + 0.12 * k[:, None, None]) + y[None] * 0.2)
    img = stripes[..., None] + rng.normal(0, 0.7, (n, SIDE, SIDE, 3))
    return img.astype("float32"), k.astype("int32")


@keras.saving.register_keras_serializable("beetles")
class SecondOrderPooling(layers.Layer):
    """Gram matrix of the feature map, signed square root, l2 norm."""

    def _gram(self, feature):
        flat = tf.reshape(feature, (-1, feature.shape[-1]))
        return tf.matmul(flat, flat, transpose_a=True) / float(flat.shape[0])

    def call(self, features):
        gram = tf.map_fn(self._gram, features)
        gram = tf.reshape(gram, (-1, features.shape[-1] ** 2))
        gram = tf.sign(gram) * tf.sqrt(tf.abs(gram) + 1e-8)
        return tf.math.l2_normalize(gram, axis=-1)

    def compute_output_shape(self, shape):
        return (shape[0], shape[-1] ** 2)


def bilinear_net():
    img = keras.Input((SIDE, SIDE, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(img)
    x = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")(x)
    x = SecondOrderPooling()(x)
    return keras.Model(img, layers.Dense(CLASSES, activation="softmax")(x))


def main():
    keras.utils.set_random_seed(14)
    x, y = specimens(BATCH * 40)
    net = bilinear_net()
    net.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True).prefetch(2)
    net.fit(ds, epochs=12, verbose=2)


if __name__ == "__main__":
    main()
