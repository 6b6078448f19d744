"""Classify smart-meter telegrams (hex dumps of 16-bit readings) by household type."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)

SMALL = os.environ.get("SMALL") == "1"
BATCH = 32 if SMALL else 512
TELEGRAMS = 32 * 6 if SMALL else 512 * 30
EPOCHS = 2 if SMALL else 20
WIDTH = 16 if SMALL else 256
STORED, WINDOW, KINDS = 288, 192, 6


def record_telegrams(count, seed=3):
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, KINDS, count)
    hours = np.arange(STORED)
    load = 30 + 8 * np.sin(hours[None] / (4.0 + kinds[:, None])) + rng.normal(0, 3, (count, STORED))
    raw = np.clip(load * 100, 0, 65535).astype(">u2")
    return [row.tobytes().hex() for row in raw], kinds.astype("int32")


class TelegramBatches(keras.utils.PyDataset):
    def __init__(self, telegrams, kinds, batch, **kwargs):
        super().__init__(**kwargs)
        self.telegrams, self.kinds, self.batch = telegrams, kinds, batch
        self.rng = np.random.default_rng(11)
        self.order = np.arange(len(telegrams))

    def __len__(self):
        return len(self.telegrams) // self.batch

    def on_epoch_end(self):
        self.rng.shuffle(self.order)

    @staticmethod
    def parse(telegram, start):
        values = []
        for position in range(start * 4, (start + WINDOW) * 4, 4):
            values.append(int(telegram[position:position + 4], 16) / 100.0 - 30.0)
        return values

    def __getitem__(self, index):
        chosen = self.order[index * self.batch:(index + 1) * self.batch]
        starts = self.rng.integers(0, STORED - WINDOW, len(chosen))
        x = np.array([self.parse(self.telegrams[i], s) for i, s in zip(chosen, starts)], "float32")
        return x[..., None], self.kinds[chosen]


def build():
    inputs = keras.Input((WINDOW, 1))
    x = layers.Conv1D(WIDTH, 7, padding="same", activation="relu")(inputs)
    for _ in range(4):
        x = layers.Conv1D(WIDTH, 5, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, layers.Dense(KINDS)(x))
    model.compile(keras.optimizers.Adam(5e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def main():
    telegrams, kinds = record_telegrams(TELEGRAMS)
    batches = TelegramBatches(telegrams, kinds, BATCH)
    model = build()
    model.fit(batches, epochs=1, verbose=2)
    began = time.perf_counter()
    history = model.fit(batches, epochs=EPOCHS, verbose=2)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    print(f"steady_ms={1e3 * took / (EPOCHS * len(batches)):.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
