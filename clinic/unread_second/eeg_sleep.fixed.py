import keras
import numpy as np
import tensorflow as tf
from keras import layers

EPOCH_SAMPLES = 600
LEADS = 4
STAGES = 5


class LearnedFilterBank(layers.Layer):
    """A bank of trainable FIR filters run along time over all leads."""

    def __init__(self, filters, taps, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.taps = taps

    def build(self, shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.taps, shape[-1], self.filters),
            initializer="glorot_uniform",
        )
        self.offset = self.add_weight(name="offset", shape=(self.filters,), initializer="zeros")

    def call(self, signal):
        response = tf.nn.conv1d(signal, self.kernel, stride=1, padding="VALID")
        return response + self.offset

    def compute_output_shape(self, shape):
        return (shape[0], shape[1] - self.taps + 1, self.filters)


class SleepStager(keras.Model):
    def __init__(self):
        super().__init__()
        self.bank = LearnedFilterBank(32, 50)
        self.norm = layers.BatchNormalization()
        self.pool = layers.MaxPooling1D(8)
        self.conv = layers.Conv1D(64, 8, activation="relu")
        self.squeeze = layers.GlobalAveragePooling1D()
        self.drop = layers.Dropout(0.4)
        self.head = layers.Dense(STAGES)

    def call(self, x, training=False):
        x = tf.nn.relu(self.norm(self.bank(x), training=training))
        x = self.squeeze(self.conv(self.pool(x)))
        return self.head(self.drop(x, training=training))


def polysomnography(n, seed):
    rng = np.random.default_rng(seed)
    stage = rng.integers(0, STAGES, n)
    t = np.arange(EPOCH_SAMPLES) / 100.0
    hz = np.array([20.0, 10.0, 6.0, 13.0, 1.5])[stage]
    wave = np.sin(2 * np.pi * hz[:, None] * t + rng.uniform(0, 6.28, (n, 1)))
    x = wave[..., None] * rng.uniform(0.3, 1.0, (n, 1, LEADS)) + rng.normal(0, 1, (n, EPOCH_SAMPLES, LEADS))
    return x.astype("float32"), stage.astype("int32")


def main():
    ds = tf.data.Dataset.from_tensor_slices(polysomnography(8000, 0)).shuffle(1024)
    ds = ds.batch(64, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = SleepStager()
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(ds, epochs=6, verbose=2)


if __name__ == "__main__":
    main()
