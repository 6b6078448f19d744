"""Forecast surge from tide gauges; every gauge-day is a TFRecord of its own."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras

WINDOW, PER_FILE, FILES, BATCH = 48, 2, 4000, 64


class Archive:
    def __init__(self, root):
        self.root = root

    def store(self, name, records):
        with tf.io.TFRecordWriter(os.path.join(self.root, name)) as w:
            for r in records:
                w.write(r.astype("float32").tobytes())

    def fill(self):
        rng = np.random.default_rng(6)
        levels = np.cumsum(rng.normal(size=(FILES, PER_FILE, WINDOW + 1)), -1) * 0.1
        for day in range(FILES):
            self.store(f"gauge-{day:05d}.tfrecord", levels[day])

    def stream(self):
        names = tf.data.Dataset.list_files(os.path.join(self.root, "*.tfrecord"), seed=6)
        raw = names.interleave(tf.data.TFRecordDataset, cycle_length=1)
        return raw.repeat().batch(BATCH).map(self.parse).prefetch(4)

    @staticmethod
    def parse(raw):
        levels = tf.io.decode_raw(raw, tf.float32, fixed_length=None)
        levels = tf.reshape(levels, [-1, WINDOW + 1])
        return levels[:, :-1, None], levels[:, -1:]


def main():
    keras.utils.set_random_seed(6)
    archive = Archive(tempfile.mkdtemp(prefix="tides"))
    archive.fill()
    model = keras.Sequential([
        keras.layers.Conv1D(16, 5, activation="relu"),
        keras.layers.Conv1D(16, 5, activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ])
    model.compile("adam", "mse")
    model.fit(archive.stream(), steps_per_epoch=500, epochs=4, verbose=2)


if __name__ == "__main__":
    main()
