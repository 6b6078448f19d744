"""Autoencoder on bearing vibration, with a journal of how the weights move."""
import os
import tempfile

import numpy as np
import keras


def vibration(n, width=256):
    rng = np.random.default_rng(50)
    t = np.arange(width)
    speed = rng.uniform(0.05, 0.4, (n, 1))
    return (np.sin(speed * t) + 0.1 * rng.normal(size=(n, width))).astype("float32")


class Journal(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.rows = []
        self.count = 0

    def _summary(self, weights):
        return {f"w{k}": np.histogram(w, bins=64)[0] for k, w in enumerate(weights)}

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        row = self._summary(self.model.get_weights())
        np.savez_compressed(os.path.join(self.folder, "last.npz"), **row)
        self.rows.append(logs["loss"])


def autoencoder(width=256):
    return keras.Sequential([
        keras.Input((width,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(24, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(width),
    ])


def main():
    keras.utils.set_random_seed(50)
    x = vibration(128 * 60)
    model = autoencoder()
    model.compile("adam", "mse")
    journal = Journal(tempfile.mkdtemp())
    model.fit(x, x, batch_size=128, epochs=12, verbose=0, callbacks=[journal])
    print("steps", journal.count, "loss", journal.rows[-1])


if __name__ == "__main__":
    main()
