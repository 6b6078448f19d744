import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

N_EVENTS = 9000
LENGTH = 200
SPEC = {
    "trace": tf.io.FixedLenFeature([], tf.string),
    "magnitude": tf.io.FixedLenFeature([], tf.float32),
}


def to_example(trace, magnitude):
    return tf.train.Example(features=tf.train.Features(feature={
        "trace": tf.train.Feature(bytes_list=tf.train.BytesList(value=[trace.tobytes()])),
        "magnitude": tf.train.Feature(float_list=tf.train.FloatList(value=[magnitude])),
    })).SerializeToString()


def export_catalogue(folder):
    rng = np.random.default_rng(2024)
    traces = rng.standard_normal((N_EVENTS, LENGTH), dtype=np.float32)
    mags = rng.uniform(1, 6, N_EVENTS)
    traces *= mags[:, None].astype("float32")
    for i in range(N_EVENTS):
        with tf.io.TFRecordWriter(os.path.join(folder, f"event-{i:05d}.tfrecord")) as w:
            w.write(to_example(traces[i], mags[i]))


def parse_batch(serialized):
    ex = tf.io.parse_example(serialized, SPEC)
    x = tf.io.decode_raw(ex["trace"], tf.float32)
    x = tf.reshape(x, (-1, LENGTH))
    x += tf.random.normal(tf.shape(x), stddev=0.05)
    return x, ex["magnitude"]


def read(folder, batch):
    files = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"), shuffle=True)
    ds = tf.data.TFRecordDataset(files)
    ds = ds.shuffle(2048).batch(batch, drop_remainder=True)
    ds = ds.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class MagnitudeNet(keras.Model):
    def __init__(self, width=128):
        super().__init__()
        self.body = keras.Sequential([
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(width, activation="tanh"),
        ])
        self.head = keras.layers.Dense(1)

    def call(self, x, training=False):
        energy = tf.math.log1p(tf.square(x))
        return self.head(self.body(energy))[:, 0]


def run():
    folder = tempfile.mkdtemp(prefix="quakes")
    try:
        export_catalogue(folder)
        model = MagnitudeNet()
        model.compile(optimizer="adam", loss=keras.losses.Huber(), metrics=["mae"])
        epochs = 8
        t0 = time.time()
        model.fit(read(folder, 64), epochs=epochs, verbose=2)
        secs = time.time() - t0
    finally:
        shutil.rmtree(folder)
    print("WORK", epochs * (N_EVENTS // 64) * 64)
    print("TRAIN_SECONDS %.2f" % secs)


run()
