"""Phase picker for three-component seismograms."""
import keras
import numpy as np
import tensorflow as tf


class PickFilter(keras.layers.Layer):
    """Learned filter bank that slides along the trace."""

    def __init__(self, filters, taps, hop):
        super().__init__()
        self.filters, self.taps, self.hop = filters, taps, hop

    def build(self, shape):
        self.w = self.add_weight(shape=(self.taps, shape[-1], self.filters), initializer="glorot_uniform")
        self.b = self.add_weight(shape=(self.filters,), initializer="zeros")

    def call(self, x):
        out = []
        for start in range(0, x.shape[1] - self.taps + 1, self.hop):
            piece = x[:, start : start + self.taps, :]
            out.append(tf.einsum("btc,tcf->bf", piece, self.w) + self.b)
        return tf.nn.relu(tf.stack(out, axis=1))


def seismograms(n=1600, length=400):
    rng = np.random.default_rng(77)
    x = rng.normal(0, 1, (n, length, 3)).astype("float32")
    onset = rng.integers(40, length - 80, n)
    for row, o in zip(x, onset):
        row[o : o + 40] *= 4.0
    return x, (onset / length).astype("float32")


class Picker(keras.Model):
    def __init__(self):
        super().__init__()
        self.bank = PickFilter(16, 16, 4)
        self.second = keras.layers.Conv1D(16, 5, strides=2, activation="relu")
        self.flat = keras.layers.Flatten()
        self.out = keras.layers.Dense(1, activation="sigmoid")

    def call(self, x):
        return self.out(self.flat(self.second(self.bank(x))))


if __name__ == "__main__":
    keras.utils.set_random_seed(5)
    x, y = seismograms()
    picker = Picker()
    picker.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=10)
    log = picker.fit(x, y, batch_size=32, epochs=14, callbacks=[stop], verbose=2)
    print("mean absolute error", log.history["loss"][-1])
