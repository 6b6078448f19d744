"""Wear of rails from accelerometer sections, read through a PyDataset."""
import os
import tempfile

import numpy as np
import keras
from keras import layers


class Sections(keras.utils.PyDataset):
    def __init__(self, folder, count, batch):
        super().__init__(workers=1)
        self.batch, self.count = batch, count
        rng = np.random.default_rng(6)
        path = os.path.join(folder, "sections.npy")
        np.save(path, rng.normal(size=(count, 400, 6)).astype("float32"))
        self.rows = np.load(path, mmap_mode="r")
        self.wear = rng.random((count, 1)).astype("float32")

    def __len__(self):
        return self.count // self.batch

    def __getitem__(self, k):
        part = slice(k * self.batch, (k + 1) * self.batch)
        return np.array(self.rows[part]), self.wear[part]


class LastLoss(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.value = logs["loss"]


def main():
    keras.utils.set_random_seed(6)
    model = keras.Sequential([
        keras.Input((400, 6)),
        layers.Conv1D(64, 7, padding="same", activation="relu"),
        layers.Conv1D(64, 7, padding="same", activation="relu"),
        layers.GlobalMaxPooling1D(), layers.Dense(1)])
    model.compile("adam", "mse")
    last = LastLoss()
    with tempfile.TemporaryDirectory() as folder:
        keep = keras.callbacks.ModelCheckpoint(os.path.join(folder, "w.weights.h5"),
                                               save_weights_only=True)
        model.fit(Sections(folder, 32 * 40, 32), epochs=5, verbose=0, callbacks=[last, keep])
    print("loss", float(last.value))


if __name__ == "__main__":
    main()
