"""Tell the glasses of a glass harmonica apart by their ring."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

LENGTH = 100
CLASSES = 10


class SlidingBank(layers.Layer):
    """A bank of filters that slides along the recording."""

    def __init__(self, filters, width, **kw):
        super().__init__(**kw)
        self.filters = filters
        self.width = width

    def build(self, shape):
        self.length = shape[1]
        self.channels = shape[2]
        self.kernel = self.add_weight(
            shape=(self.width, self.channels, self.filters), initializer="glorot_uniform")
        self.bias = self.add_weight(shape=(self.filters,), initializer="zeros")

    def call(self, x):
        flat = tf.reshape(self.kernel, (self.width * self.channels, self.filters))
        out = []
        for t in range(self.length - self.width + 1):
            window = tf.reshape(x[:, t:t + self.width], (-1, self.width * self.channels))
            out.append(tf.matmul(window, flat))
        y = tf.stack(out, axis=1)
        return tf.nn.relu(y + self.bias)


def recordings(n, seed):
    rng = np.random.default_rng(seed)
    which = rng.integers(0, CLASSES, n)
    t = np.arange(LENGTH)
    freq = 0.1 + 0.08 * which[:, None]
    tone = np.sin(freq * t + rng.uniform(0, 6.28, (n, 1))) * np.exp(-t / 60.0)
    tone = np.stack([tone, np.roll(tone, 3, axis=1)], axis=-1)
    return (tone + rng.normal(0, 0.2, tone.shape)).astype("float32"), which


def make_model():
    inp = keras.Input((LENGTH, 2))
    x = SlidingBank(24, 9)(inp)
    x = SlidingBank(24, 9)(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dense(32, activation="relu")(x)
    out = layers.Dense(CLASSES, activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(0)
    x, y = recordings(64 * 120, 3)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(2000).batch(64).prefetch(2)
    model = make_model()
    model.fit(ds, epochs=3, verbose=2)


if __name__ == "__main__":
    main()
