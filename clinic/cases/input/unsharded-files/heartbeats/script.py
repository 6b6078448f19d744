"""Arrhythmia classes from single heartbeats; the exporter writes TFRecord files per recording."""
import itertools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

BEATS = 6000
PER_FILE = 1
WIDTH = 180
CLASSES = 5


def export_beats(folder):
    rng = np.random.default_rng(21)
    kinds = rng.integers(0, CLASSES, BEATS)
    t = np.linspace(-1, 1, WIDTH)
    count = itertools.count()
    for start in range(0, BEATS, PER_FILE):
        with tf.io.TFRecordWriter(str(folder / f"rec-{next(count):05d}.tfr")) as out:
            for k in kinds[start:start + PER_FILE]:
                wave = np.exp(-(t * (6 + 4 * k)) ** 2) + rng.normal(0, 0.1, WIDTH)
                out.write(wave.astype("<f4").tobytes() + bytes([k]))


def unpack(raw):
    body = tf.io.decode_raw(tf.strings.substr(raw, 0, 4 * WIDTH), tf.float32, fixed_length=4 * WIDTH)
    kind = tf.io.decode_raw(tf.strings.substr(raw, 4 * WIDTH, 1), tf.uint8, fixed_length=1)
    return tf.reshape(body, (-1, WIDTH, 1)), tf.cast(kind[:, 0], tf.int32)


def beats(folder, batch):
    names = sorted(str(p) for p in folder.glob("*.tfr"))
    order = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names))
    raw = order.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    return raw.shuffle(1000).batch(batch).map(unpack, num_parallel_calls=2).prefetch(2)


class BeatNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.c1 = tf.keras.layers.Conv1D(16, 9, strides=3, activation="relu")
        self.c2 = tf.keras.layers.Conv1D(24, 9, strides=3, activation="relu")
        self.flat = tf.keras.layers.Flatten()
        self.out = tf.keras.layers.Dense(CLASSES)

    def call(self, x):
        return self.out(self.flat(self.c2(self.c1(x))))


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="beats_"))
    try:
        export_beats(folder)
        net = BeatNet()
        net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        net.fit(beats(folder, 64), epochs=5, verbose=2)
    finally:
        shutil.rmtree(folder)
