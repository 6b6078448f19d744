"""Rhythm classification of single-lead ECG strips. `export` writes what the annotation server hands out."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import shutil, tempfile
import numpy as np
import tensorflow as tf

STRIPS, SAMPLES, RHYTHMS = 6000, 256, 4
PER_FILE = 1


def export(folder):
    rng = np.random.default_rng(3)
    t = np.arange(SAMPLES) / 128
    paths = []
    for start in range(0, STRIPS, PER_FILE):
        path = os.path.join(folder, f"strips-{start:05d}.tfrecord")
        with tf.io.TFRecordWriter(path) as w:
            for _ in range(PER_FILE):
                k = int(rng.integers(RHYTHMS))
                sig = np.maximum(0, np.sin(2 * np.pi * (0.8 + 0.5 * k) * t)) ** 8 + 0.1 * rng.normal(size=SAMPLES)
                w.write(np.append(sig, k).astype("<f4").tobytes())
        paths.append(path)
    return paths


def unpack(raw):
    v = tf.reshape(tf.io.decode_raw(raw, tf.float32), [-1, SAMPLES + 1])
    return v[:, :SAMPLES, None], tf.cast(v[:, SAMPLES], tf.int32)


def strips(paths):
    ds = tf.data.TFRecordDataset(paths)
    ds = ds.batch(64, drop_remainder=True).map(unpack, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class RhythmNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        L = tf.keras.layers
        self.body = tf.keras.Sequential([L.Conv1D(8, 9, strides=4, activation="relu"),
                                         L.Conv1D(16, 5, strides=2, activation="relu"),
                                         L.GlobalAveragePooling1D(), L.Dense(RHYTHMS)])

    def call(self, x, training=False):
        return self.body(x, training=training)


if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    try:
        data = strips(export(folder))
        net = RhythmNet()
        net.compile(optimizer=tf.keras.optimizers.Adam(3e-3),
                    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        net.fit(data, epochs=6, verbose=2)
    finally:
        shutil.rmtree(folder)
