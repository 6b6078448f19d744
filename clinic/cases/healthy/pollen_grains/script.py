import math
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers


def write_slides(folder, n_files=6, per_file=48, side=64):
    rng = np.random.default_rng(1)
    for k in range(n_files):
        imgs = rng.integers(0, 255, (per_file, side, side, 3), dtype=np.uint8)
        kinds = rng.integers(0, 4, per_file)
        imgs[:, :, :16] = (kinds * 60)[:, None, None, None]
        np.savez(os.path.join(folder, f"slide{k}.npz"), imgs=imgs, kinds=kinds)


class PollenData(keras.utils.PyDataset):
    def __init__(self, folder, batch_size=32, **kw):
        super().__init__(**kw)
        parts = [np.load(os.path.join(folder, f)) for f in sorted(os.listdir(folder))]
        self.imgs = np.concatenate([p["imgs"] for p in parts])
        self.kinds = np.concatenate([p["kinds"] for p in parts])
        self.bs = batch_size
        self.rng = np.random.default_rng(0)
        self.perm = self.rng.permutation(len(self.kinds))

    def __len__(self):
        return math.ceil(len(self.kinds) / self.bs)

    def __getitem__(self, i):
        ids = self.perm[i * self.bs:(i + 1) * self.bs]
        x = self.imgs[ids]
        if self.rng.random() < 0.5:
            x = x[:, :, ::-1]
        return x, self.kinds[ids]

    def on_epoch_end(self):
        self.rng.shuffle(self.perm)


def net():
    inp = keras.Input((64, 64, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(inp)
    x = layers.Conv2D(32, 5, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    for f in (64, 96):
        x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(inp, layers.Dense(4, activation="softmax")(x))


with tempfile.TemporaryDirectory() as folder:
    write_slides(folder)
    data = PollenData(folder)
keras.utils.set_random_seed(10)
model = net()
model.compile(keras.optimizers.Adam(3e-4), "sparse_categorical_crossentropy", metrics=["accuracy"])
EPOCHS = 2
t0 = time.time()
model.fit(data, epochs=EPOCHS, verbose=2)
t1 = time.time()
print("WORK", EPOCHS * len(data.kinds))
print("TRAIN_SECONDS %.2f" % (t1 - t0))
