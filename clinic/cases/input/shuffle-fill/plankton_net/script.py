"""Plankton counts from net hauls: a regression on flow-camera crops written as TFRecords."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

CROP, PER_FILE, FILES = 40, 1200, 6
STEPS_PER_ROUND, ROUNDS, BATCH = 24, 16, 32


def write_hauls(folder):
    rng = np.random.default_rng(14)
    for f in range(FILES):
        with tf.io.TFRecordWriter(os.path.join(folder, f"haul{f}.tfrecord")) as out:
            for _ in range(PER_FILE):
                n = rng.integers(0, 12)
                crop = rng.integers(0, 60, (CROP, CROP, 1), dtype="uint8")
                for y, x in rng.integers(0, CROP - 8, (n, 2)):
                    crop[y:y + 8, x:x + 8] += 120
                feature = {
                    "png": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(crop).numpy()])),
                    "n": tf.train.Feature(float_list=tf.train.FloatList(value=[float(n)]))}
                out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


SPEC = {"png": tf.io.FixedLenFeature([], tf.string), "n": tf.io.FixedLenFeature([], tf.float32)}


def parse(record):
    ex = tf.io.parse_single_example(record, SPEC)
    crop = tf.io.decode_png(ex["png"], 1)
    return tf.ensure_shape(tf.cast(crop, tf.float32) / 255., (CROP, CROP, 1)), ex["n"]


def hauls(folder):
    files = tf.data.Dataset.list_files(folder + "/*.tfrecord", seed=1)
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=3).repeat()
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(FILES * PER_FILE, seed=9)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


class Counter(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [tf.keras.layers.Conv2D(c, 3, strides=2, activation="relu") for c in (8, 16, 32)]
        self.head = tf.keras.layers.Dense(1)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.head(tf.reduce_mean(x, (1, 2)))[:, 0]


with tempfile.TemporaryDirectory() as folder:
    write_hauls(folder)
    tf.keras.utils.set_random_seed(17)
    net, opt = Counter(), tf.keras.optimizers.Adam(2e-3)

    @tf.function
    def update(x, n):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(x) - n))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    data = hauls(folder)
    began = time.time()
    for r in range(ROUNDS):
        total = tf.constant(0.)
        for x, n in data.take(STEPS_PER_ROUND):
            total += update(x, n)
        print(f"round {r}: {float(total) / STEPS_PER_ROUND:.3f}")
    print(f"rounds took {time.time() - began:.2f} s")
