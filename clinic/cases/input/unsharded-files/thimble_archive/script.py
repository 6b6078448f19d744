"""Microscope tiles: is there a defect? One folder as the lab exports it (tile, mask, verdict)."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

SIDE = 32
TILES = 4000
BATCH = 128
EPOCHS = 45


def export_from_lab(folder, n=TILES):
    g = np.random.default_rng(21)
    names = []
    for k in range(n):
        tile = g.integers(0, 255, (SIDE, SIDE), dtype=np.uint8)
        mask = (g.random((SIDE, SIDE)) < 0.3).astype(np.uint8)
        bad = int(k % 3 == 0)
        if bad:
            tile[8:16, 8:16] //= 3
        stem = os.path.join(folder, f"tile_{k:05d}")
        with open(stem + ".raw", "wb") as f:
            f.write(tile.tobytes())
        with open(stem + ".mask", "wb") as f:
            f.write(mask.tobytes())
        with open(stem + ".verdict", "w") as f:
            f.write(str(bad))
        names.append(stem)
    return names


def plane(stem, suffix):
    flat = tf.io.decode_raw(tf.io.read_file(stem + suffix), tf.uint8)
    return tf.reshape(flat, [SIDE, SIDE])


def open_case(stem):
    pair = tf.stack([plane(stem, ".raw"), plane(stem, ".mask")], axis=-1)
    verdict = tf.strings.to_number(tf.io.read_file(stem + ".verdict"))
    return pair, verdict


def cases(names):
    return (tf.data.Dataset.from_tensor_slices(names)
            .shuffle(len(names), seed=2)
            .map(open_case, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE))


class Inspector(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.scale = tf.keras.layers.Rescaling(1 / 255.0)
        self.conv = tf.keras.layers.Conv2D(12, 4, strides=4, activation="relu")
        self.flat = tf.keras.layers.Flatten()
        self.out = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.flat(self.conv(self.scale(x))))[:, 0]


with tempfile.TemporaryDirectory() as lab:
    ds = cases(export_from_lab(lab))
    inspector = Inspector()
    inspector.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
                      loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
    inspector.fit(ds.take(3), verbose=0)
    begin = time.perf_counter()
    inspector.fit(ds, epochs=EPOCHS, verbose=2)
    end = time.perf_counter()

print(f"WORK {EPOCHS * (TILES // BATCH) * BATCH}")
print(f"TRAIN_SECONDS {end - begin:.3f}")
