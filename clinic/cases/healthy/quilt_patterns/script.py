"""Naming traditional quilt blocks from small photographs.

The photographs are stitched together as they are asked for (random colours,
random light), so that no two epochs show the same cloth.
"""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

BLOCKS = ["checker", "rail_fence", "log_cabin", "pinwheel", "bars", "plain_frame"]
SIZE = 48
BATCH = 32
STEPS = 32
EPOCHS = 4


def block_masks():
    """One mask of 0/1/2 patches for each kind of block."""
    i, j = np.mgrid[0:SIZE, 0:SIZE]
    ring = np.minimum(np.minimum(i, j), np.minimum(SIZE - 1 - i, SIZE - 1 - j))
    quarter = (i >= SIZE // 2).astype(int) * 2 + (j >= SIZE // 2).astype(int)
    masks = np.stack([
        (i // 8 + j // 8) % 2,
        np.where((i // 16 + j // 16) % 2 == 0, i // 4, j // 4) % 3,
        (ring // 4) % 3,
        np.where(quarter % 3 == 0, i % 24 > j % 24, i % 24 < 23 - j % 24).astype(int),
        (j // 6) % 3,
        (ring < 6).astype(int),
    ])
    return masks.astype("int64")


class QuiltMaker:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.masks = block_masks()

    def batches(self):
        """Endless batches; one call of the palette makes the whole batch."""
        rows = np.arange(BATCH)[:, None, None]
        while True:
            kind = self.rng.integers(0, len(BLOCKS), size=BATCH)
            palette = self.rng.integers(30, 226, size=(BATCH, 3, 3)).astype("uint8")
            photo = palette[rows, self.masks[kind]]
            if self.rng.random() < 0.5:
                photo = photo[:, :, ::-1]
            grain = self.rng.integers(0, 24, size=(BATCH, SIZE, SIZE, 1), dtype="uint8")
            yield photo + grain, kind.astype("int32")


def as_dataset(maker):
    signature = (
        tf.TensorSpec((BATCH, SIZE, SIZE, 3), tf.uint8),
        tf.TensorSpec((BATCH,), tf.int32),
    )
    return tf.data.Dataset.from_generator(maker.batches, output_signature=signature).prefetch(2)


def build():
    return keras.Sequential([
        keras.Input((SIZE, SIZE, 3)),
        layers.Rescaling(1.0 / 127.5, offset=-1.0),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(128, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(128, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(BLOCKS)),
    ])


keras.utils.set_random_seed(6)
model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
data = as_dataset(QuiltMaker(seed=6))

t0 = time.perf_counter()
model.fit(data, steps_per_epoch=STEPS, epochs=EPOCHS, verbose=2)
seconds = time.perf_counter() - t0

print(f"TRAIN_SECONDS {seconds:.2f}")
