"""Accent identification on raw speech, runs on the CPU nodes of the lab cluster."""
import os
import random

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
os.environ["TF_NUM_INTEROP_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SEED = 2024
SAMPLES = 16000
ACCENTS = 8


def seed_everything(seed):
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)


def speakers(n=3000):
    t = np.arange(SAMPLES, dtype=np.float32) / SAMPLES
    y = np.random.randint(0, ACCENTS, n)
    pitch = (100 + 20 * y + 5 * np.random.randn(n)).astype(np.float32)
    x = np.sin(2 * np.pi * pitch[:, None] * t)
    x += 0.2 * np.random.randn(n, 1).astype(np.float32)
    return x[..., None], y.astype(np.int32)


class ResidualUnit(layers.Layer):
    def __init__(self, channels, dilation, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv1D(channels, 5, padding="same", dilation_rate=dilation)
        self.norm = layers.LayerNormalization()
        self.mix = layers.Conv1D(channels, 1)

    def call(self, x):
        return x + self.mix(tf.nn.relu(self.norm(self.conv(x))))


def wave_model():
    inp = layers.Input((SAMPLES, 1))
    x = layers.Conv1D(64, 16, strides=8, padding="same")(inp)
    for i in range(6):
        x = ResidualUnit(64, 2 ** i)(x)
    x = layers.GlobalAveragePooling1D()(x)
    out = layers.Dense(ACCENTS, activation="softmax")(x)
    return tf.keras.Model(inp, out)


def main():
    seed_everything(SEED)
    x, y = speakers()
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500, seed=SEED)
    ds = ds.batch(32).prefetch(tf.data.AUTOTUNE)
    model = wave_model()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(ds, epochs=8, verbose=2)


if __name__ == "__main__":
    main()
