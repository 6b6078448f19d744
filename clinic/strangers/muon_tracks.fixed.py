"""Track or shower?  Hits of a pixel plane binned to a small picture, then a CNN."""
import math
import time

import numpy as np
import keras
from keras import layers

GRID = 32
HITS = 200
EVENTS = 3200
BATCH = 32
EPOCHS = 9


def simulate(seed=8):
    """x, y in [-1, 1] and a charge per hit; label 1 = shower."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, EVENTS)
    along = rng.uniform(-0.95, 0.95, (EVENTS, HITS))
    width = np.where(labels[:, None] == 1, 0.05 + 0.16 * (along + 1), 0.12)
    across = rng.standard_normal((EVENTS, HITS)) * width
    charge = rng.gamma(2.0, 0.15, (EVENTS, HITS))
    dark = rng.random((EVENTS, HITS)) < 0.25           # dark counts, anywhere
    along = np.where(dark, rng.uniform(-1, 1, along.shape), along)
    across = np.where(dark, rng.uniform(-1, 1, along.shape), across)
    hits = np.stack([along, across, charge], axis=-1).astype(np.float32)
    return hits, labels.astype(np.int32)


class HitPlane(keras.utils.PyDataset):
    """Every time an event comes up it is turned by another angle."""

    def __init__(self, hits, labels, seed=8, **kwargs):
        super().__init__(**kwargs)
        self.hits = hits
        self.labels = labels
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(len(labels))

    def __len__(self):
        return len(self.labels) // BATCH

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.labels))

    def __getitem__(self, index):
        events = self.order[index * BATCH:(index + 1) * BATCH]
        angles = self.rng.uniform(0, 2 * math.pi, len(events))
        pictures = np.zeros((len(events), GRID, GRID, 1), np.float32)
        c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
        x, y, charge = np.moveaxis(self.hits[events], -1, 0)
        u = ((c * x - s * y + 1.0) * 0.5 * GRID).astype(np.int64)
        v = ((s * x + c * y + 1.0) * 0.5 * GRID).astype(np.int64)
        row = np.broadcast_to(np.arange(len(events))[:, None], u.shape)
        inside = (u >= 0) & (u < GRID) & (v >= 0) & (v < GRID)
        np.add.at(pictures[..., 0], (row[inside], v[inside], u[inside]), charge[inside])
        return pictures, self.labels[events]


def network():
    inputs = keras.Input((GRID, GRID, 1))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(32, activation="relu")(x)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    return keras.Model(inputs, outputs, name="plane_net")


if __name__ == "__main__":
    keras.utils.set_random_seed(8)
    hits, labels = simulate()
    plane = HitPlane(hits, labels)
    model = network()
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    begin = time.perf_counter()
    model.fit(plane, epochs=EPOCHS, verbose=2)
    print("TRAIN_SECONDS", round(time.perf_counter() - begin, 2))
