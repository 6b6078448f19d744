"""Where does a piece of amber come from?  FTIR spectra -> deposit.

A small encoder and a layer of radial prototypes (an RBF network): a deposit
is recognised by how near the encoded spectrum lies to learned typical pieces.
The curators like it because each prototype can be shown as "a piece like this".
"""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

DEPOSITS = ["baltic", "dominican", "burmese", "lebanese", "bitterfeld", "mexican", "rovno", "copal"]
BANDS = 180
PROTOTYPES = 128
CODE = 96


class Prototypes(layers.Layer):
    """exp(-gamma_k * |x - p_k|^2) for every prototype k."""

    def __init__(self, count, gamma=0.05, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        self.gamma = gamma

    def build(self, input_shape):
        self.centres = self.add_weight(
            name="centres", shape=(self.count, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.5, seed=3))
        self.log_gamma = self.add_weight(
            name="log_gamma", shape=(self.count,),
            initializer=keras.initializers.Constant(float(np.log(self.gamma))))

    def call(self, x):
        distances = []
        for k in range(self.count):
            away = x - self.centres[k]
            distances.append(tf.reduce_sum(tf.square(away), axis=-1))
        distances = tf.stack(distances, axis=-1)
        return tf.exp(-tf.exp(self.log_gamma) * distances)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.count)


def simulate_pieces(n, rng):
    """Absorption bands per deposit, weathering as a drifting baseline."""
    wavenumber = np.linspace(0.0, 1.0, BANDS, dtype="float32")
    centre = rng.uniform(0.05, 0.95, size=(len(DEPOSITS), 7)).astype("float32")
    height = rng.uniform(0.3, 1.0, size=(len(DEPOSITS), 7)).astype("float32")
    peaks = np.exp(-((wavenumber - centre[..., None]) / 0.02) ** 2)
    clean = (peaks * height[..., None]).sum(axis=1)
    y = rng.integers(0, len(DEPOSITS), size=n)
    tilt = rng.normal(0.0, 0.3, size=(n, 1)).astype("float32")
    x = clean[y] + tilt * wavenumber
    x += rng.normal(0.0, 0.25, size=x.shape).astype("float32")
    return x.astype("float32"), y.astype("int32")


class AmberClassifier:
    def __init__(self, lr=1e-3):
        spectrum = keras.Input((BANDS,))
        h = layers.Dense(128, activation="relu")(spectrum)
        code = layers.Dense(CODE, activation="tanh", name="code")(h)
        near = Prototypes(PROTOTYPES, name="prototypes")(code)
        out = layers.Dense(len(DEPOSITS), name="deposit")(near)
        self.model = keras.Model(spectrum, out)
        self.model.compile(
            optimizer=keras.optimizers.Adam(lr),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )

    def fit(self, x, y, epochs, batch_size):
        return self.model.fit(x, y, epochs=epochs, batch_size=batch_size, verbose=2)


def main():
    keras.utils.set_random_seed(44)
    rng = np.random.default_rng(44)
    x, y = simulate_pieces(27_600, rng)
    x_train, y_train, x_test, y_test = x[:25_600], y[:25_600], x[25_600:], y[25_600:]

    clf = AmberClassifier()
    started = time.perf_counter()
    clf.fit(x_train, y_train, epochs=10, batch_size=512)
    seconds = time.perf_counter() - started

    scores = clf.model.evaluate(x_test, y_test, batch_size=512, verbose=0)
    print("test accuracy %.3f" % scores[1])
    print("TRAIN_SECONDS %.2f" % seconds)


main()
