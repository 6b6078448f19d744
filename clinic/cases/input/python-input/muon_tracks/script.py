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
        for row, event in enumerate(events):
            c, s = math.cos(angles[row]), math.sin(angles[row])
            for x, y, charge in self.hits[event]:
                u = int((c * x - s * y + 1.0) * 0.5 * GRID)
                v = int((s * x + c * y + 1.0) * 0.5 * GRID)
                if 0 <= u < GRID and 0 <= v < GRID:
                    pictures[row, v, u, 0] += charge
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
