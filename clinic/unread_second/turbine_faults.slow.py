import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SENSORS, LENGTH, FAULTS = 12, 128, 6


def vibration(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, FAULTS, n)
    t = np.linspace(0, 1, LENGTH)
    carrier = np.sin(2 * np.pi * (5 + 4 * y[:, None]) * t)
    x = carrier[..., None] * rng.uniform(0.5, 1.5, (n, 1, SENSORS))
    x = x + rng.normal(0, 0.5, (n, LENGTH, SENSORS))
    return x.astype("float32"), y.astype("int32")


class WeightMonitor(keras.callbacks.Callback):
    """Weight distributions and update sizes for TensorBoard."""

    def __init__(self, log_dir):
        super().__init__()
        self.writer = tf.summary.create_file_writer(log_dir)
        self.seen = 0
        self.previous = {}

    def record(self, step):
        with self.writer.as_default(step=step):
            for v in self.model.trainable_variables:
                value = v.numpy()
                tf.summary.histogram(v.path, value, buckets=50)
                tf.summary.scalar(v.path + "/norm", np.linalg.norm(value))
                if v.path in self.previous:
                    delta = np.linalg.norm(value - self.previous[v.path])
                    tf.summary.scalar(v.path + "/update", delta)
                self.previous[v.path] = value
            self.writer.flush()

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        self.record(self.seen)


def block(x, width):
    x = layers.Conv1D(width, 5, padding="same")(x)
    x = layers.LayerNormalization()(x)
    x = layers.Activation("swish")(x)
    return layers.MaxPooling1D(2)(x)


def build():
    inputs = keras.Input((LENGTH, SENSORS))
    x = inputs
    for width in (32, 64, 96, 128):
        x = block(x, width)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(64, activation="swish")(x)
    return keras.Model(inputs, layers.Dense(FAULTS, activation="softmax")(x))


def as_dataset(x, y, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(2048)
    return ds.batch(128).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    train = as_dataset(*vibration(20_000, 0), True)
    val = as_dataset(*vibration(2_000, 1), False)
    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as logs:
        model.fit(train, validation_data=val, epochs=8, verbose=2, callbacks=[WeightMonitor(logs)])
