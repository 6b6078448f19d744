"""Fish-finder echo classifier with a learned matched-filter front end."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

PINGS, BEAMS, REACH = 136, 12, 9


@keras.utils.register_keras_serializable("herring")
class MatchedFilters(keras.layers.Layer):
    """Slides `filters` learned echoes along the time axis."""

    def __init__(self, filters, reach=REACH, **kw):
        super().__init__(**kw)
        self.filters, self.reach = filters, reach

    def build(self, shape):
        self.echo = self.add_weight(shape=(self.reach, shape[-1], self.filters), initializer="glorot_uniform", name="echo")
        self.floor = self.add_weight(shape=(self.filters,), initializer="zeros", name="floor")

    def score(self, window):
        return tf.tensordot(window, self.echo, [[1, 2], [0, 1]]) + self.floor

    def call(self, x):
        places = x.shape[1] - self.reach + 1
        heard = [self.score(x[:, k:k + self.reach, :]) for k in range(places)]
        return tf.nn.relu(tf.stack(heard, axis=1))


def sounder():
    x = inp = keras.Input((PINGS, BEAMS))
    x = keras.layers.Dense(BEAMS, name="gain")(x)
    x = MatchedFilters(16)(x)
    x = keras.layers.AveragePooling1D(4)(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(64, activation="relu")(x)
    return keras.Model(inp, keras.layers.Dense(4, activation="softmax")(x))


def shoals(n, seed=88):
    g = np.random.default_rng(seed)
    kind = g.integers(0, 4, n)
    t = np.arange(PINGS)[None, :, None]
    x = np.sin(t * (0.2 + 0.1 * kind)[:, None, None]) + g.normal(size=(n, PINGS, BEAMS))
    return x.astype("float32"), kind


def voyage():
    x, y = shoals(6400)
    m = sounder()
    m.compile(keras.optimizers.Nadam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    m.fit(x[:320], y[:320], batch_size=64, verbose=0)
    cast_off = time.perf_counter()
    m.fit(x, y, batch_size=64, epochs=9, verbose=2)
    return 9 * len(x), time.perf_counter() - cast_off


work, seconds = voyage()
print("WORK", work)
print("TRAIN_SECONDS", round(seconds, 3))
