"""Health of vines from drone tiles. The stitching program writes each of the four bands of a tile as a PNG file."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

BANDS = ("green", "red", "edge", "infrared")
SIZE, TILES, BATCH, EPOCHS = 24, 2400, 60, 12


def stitch(folder):
    rng = np.random.default_rng(4)
    health = rng.integers(0, 3, TILES)
    for number, band in enumerate(BANDS):
        os.makedirs(f"{folder}/{band}")
        for tile in range(TILES):
            pixels = rng.normal(70 + 30 * health[tile] * (number % 2), 25, (SIZE, SIZE, 1)).clip(0, 255)
            with open(f"{folder}/{band}/{tile:05d}.png", "wb") as file:
                file.write(tf.io.encode_png(pixels.astype("uint8")).numpy())
    return health


def tiles(folder, health):
    def load(tile, state):
        names = [tf.strings.join([folder, "/", band, "/", tile, ".png"]) for band in BANDS]
        bands = [tf.io.decode_png(tf.io.read_file(name), channels=1) for name in names]
        return tf.cast(tf.concat(bands, axis=-1), tf.float32) / 255.0, state

    names = [f"{tile:05d}" for tile in range(TILES)]
    data = tf.data.Dataset.from_tensor_slices((names, health))
    data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    return data.shuffle(1000, seed=1).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


with tempfile.TemporaryDirectory() as folder:
    data = tiles(folder, stitch(folder))
    model = tf.keras.Sequential([
        layers.Input((SIZE, SIZE, len(BANDS))),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(3),
    ])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, epochs=1, verbose=2)
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * TILES)
    print(f"TRAIN_SECONDS {time.perf_counter() - start:.3f}")
