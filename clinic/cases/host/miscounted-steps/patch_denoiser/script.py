"""Denoising autoencoder for 32x32 spectrogram patches."""
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class PatchStore:
    """Patches kept as one array file and a small index."""

    def __init__(self, folder):
        with open(os.path.join(folder, "index.json")) as f:
            self.index = json.load(f)
        self.patches = np.load(os.path.join(folder, self.index["file"]))

    def __len__(self):
        return len(self.patches)

    def batches(self, size):
        ds = tf.data.Dataset.from_tensor_slices(self.patches)
        ds = ds.shuffle(len(self.patches)).batch(size, drop_remainder=True)
        return ds.map(lambda p: (p, p), num_parallel_calls=tf.data.AUTOTUNE).repeat().prefetch(2)

    @staticmethod
    def write(folder, n, rng):
        t = np.linspace(0, 1, 32, dtype=np.float32)
        f0, slope, width = rng.uniform(0.2, 0.8, n), rng.uniform(-0.4, 0.4, n), rng.uniform(0.02, 0.1, n)
        centre = f0[:, None] + slope[:, None] * t
        d = t[None, :, None] - centre[:, None, :]
        patches = np.exp(-(d / width[:, None, None]) ** 2).astype("float32")[..., None]
        np.save(os.path.join(folder, "patches.npy"), patches)
        with open(os.path.join(folder, "index.json"), "w") as f:
            json.dump({"file": "patches.npy", "count": n}, f)


def autoencoder():
    conv = dict(padding="same", activation="relu")
    inp = keras.Input((32, 32, 1))
    h = layers.GaussianNoise(0.3)(inp)
    h = layers.Conv2D(32, 3, strides=2, **conv)(h)
    h = layers.Conv2D(64, 3, strides=2, **conv)(h)
    h = layers.Conv2D(64, 3, **conv)(h)
    h = layers.Conv2DTranspose(32, 3, strides=2, **conv)(h)
    h = layers.Conv2DTranspose(32, 3, strides=2, **conv)(h)
    return keras.Model(inp, layers.Conv2D(1, 3, padding="same")(h))


class Experiment:
    batch_size = 24
    epochs = 2

    def __init__(self, folder):
        self.store = PatchStore(folder)
        self.model = autoencoder()
        self.model.compile(keras.optimizers.Adam(1e-3), "mse")

    @property
    def epoch_length(self):
        return len(self.store)

    def run(self):
        self.model.fit(
            self.store.batches(self.batch_size),
            steps_per_epoch=self.epoch_length,
            epochs=self.epochs,
            verbose=2,
        )
        clean = self.store.patches[:64]
        noisy = clean + 0.3 * np.random.default_rng(1).standard_normal(clean.shape)
        back = self.model(noisy.astype("float32")).numpy()
        print("residual %.4f" % float(np.mean((back - clean) ** 2)))


if __name__ == "__main__":
    keras.utils.set_random_seed(9)
    where = tempfile.mkdtemp(prefix="patches_")
    PatchStore.write(where, 600, np.random.default_rng(9))
    Experiment(where).run()
