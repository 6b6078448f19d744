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


def export_from_lab(folder, n=TILES, shards=4):
    """Packed once into a few record files; one record is tile, mask and verdict back to back."""
    g = np.random.default_rng(21)
    paths = [os.path.join(folder, f"cases-{k}.tfrecord") for k in range(shards)]
    sinks = [tf.io.TFRecordWriter(p) for p in paths]
    for k in range(n):
        tile = g.integers(0, 255, (SIDE, SIDE), dtype=np.uint8)
        mask = (g.random((SIDE, SIDE)) < 0.3).astype(np.uint8)
        bad = int(k % 3 == 0)
        if bad:
            tile[8:16, 8:16] //= 3
        sinks[k % shards].write(tile.tobytes() + mask.tobytes() + bytes([bad]))
    for s in sinks:
        s.close()
    return paths


def open_cases(blobs):
    flat = tf.io.decode_raw(blobs, tf.uint8)
    planes = tf.reshape(flat[:, :-1], [BATCH, 2, SIDE, SIDE])
    return tf.transpose(planes, [0, 2, 3, 1]), tf.cast(flat[:, -1], tf.float32)


def cases(paths):
    return (tf.data.Dataset.from_tensor_slices(paths)
            .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(TILES, seed=2)
            .batch(BATCH, drop_remainder=True)
            .map(open_cases, num_parallel_calls=tf.data.AUTOTUNE)
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
