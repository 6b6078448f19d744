"""Classify mangrove cover from small satellite tiles."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.keras.utils.set_random_seed(7)
SIDE, BANDS, BATCH, EPOCHS = 12, 4, 256, 14


def export_tiles(folder, count=5120):
    rng = np.random.default_rng(3)
    names = []
    for i in range(count):
        cover = rng.random()
        tile = rng.integers(0, 120, (SIDE, SIDE, BANDS))
        tile[: int(SIDE * cover)] += 60
        stem = os.path.join(folder, "tile_%05d" % i)
        with open(stem + ".raw", "wb") as f:
            f.write(tile.astype(np.uint8).tobytes())
        with open(stem + ".txt", "w") as f:
            f.write("%.4f" % cover)
        names.append(stem)
    return names


def load_tile(stem):
    raw = tf.io.decode_raw(tf.io.read_file(stem + ".raw"), tf.uint8)
    tile = tf.reshape(raw, (SIDE, SIDE, BANDS))
    cover = tf.strings.to_number(tf.io.read_file(stem + ".txt"))
    return tile, cover


def dataset(stems):
    ds = tf.data.Dataset.from_tensor_slices(stems)
    ds = ds.shuffle(len(stems), seed=11)
    ds = ds.map(load_tile, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH).prefetch(2)


def network():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, BANDS)),
        keras.layers.Rescaling(1 / 255.0),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ])


with tempfile.TemporaryDirectory() as folder:
    stems = export_tiles(folder)
    model = network()
    model.compile("adam", "mse", metrics=["mae"])
    begun = time.time()
    model.fit(dataset(stems), epochs=EPOCHS, verbose=2)
    print("fit %.2f s" % (time.time() - begun))
