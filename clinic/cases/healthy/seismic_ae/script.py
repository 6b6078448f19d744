# Denoising autoencoder for three-component seismograms, NumPy arrays straight into fit().
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
from tensorflow import keras
from tensorflow.keras import layers


class SeismicAE:
    def __init__(self, samples=1024):
        self.samples = samples
        inp = keras.Input((samples, 3))
        x = layers.Conv1D(32, 9, strides=2, padding="same", activation="relu")(inp)
        x = layers.Conv1D(64, 9, strides=2, padding="same", activation="relu")(x)
        x = layers.Conv1D(64, 9, padding="same", activation="relu")(x)
        x = layers.Conv1DTranspose(32, 9, strides=2, padding="same", activation="relu")(x)
        x = layers.Conv1DTranspose(16, 9, strides=2, padding="same", activation="relu")(x)
        self.model = keras.Model(inp, layers.Conv1D(3, 1)(x))
        self.model.compile("adam", "mse")

    def events(self, n):
        rng = np.random.default_rng(34)
        t = np.arange(self.samples)
        onset = rng.integers(100, 700, (n, 1))
        f = rng.uniform(0.02, 0.1, (n, 1))
        clean = np.where(t > onset, np.exp(-(t - onset).clip(0) / 150) * np.sin(2 * np.pi * f * t), 0)
        clean = (clean[..., None] * rng.uniform(0.5, 1, (n, 1, 3))).astype("float32")
        return clean + rng.normal(0, 0.2, clean.shape).astype("float32"), clean

    def train(self, n=1600, batch=16):
        noisy, clean = self.events(n)
        return self.model.fit(noisy, clean, batch_size=batch, epochs=1, verbose=2)


if __name__ == "__main__":
    SeismicAE().train()
