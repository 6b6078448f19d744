"""Deterioration model. Input is the hospital's export: vitals of the first 24 hours, packed in TFRecord shards."""
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

HOURS = 24
COLUMNS = ['pulse', 'resp', 'temp', 'sys', 'dia', 'spo2', 'event']


class Hospital:
    """Stands in for the export job."""

    def __init__(self, root, seed=31):
        self.root, self.rng = root, np.random.default_rng(seed)
        base = np.array([80, 16, 37, 125, 78, 96])
        self.bodies = []
        for k in range(120):
            drift = np.linspace(0, 1, HOURS)[:, None] * np.array([18, 5, .8, -22, -12, -5]) * (k % 2)
            vitals = base + drift + self.rng.normal(0, 1, (HOURS, 6)) * np.array([7, 2, .3, 9, 6, 1])
            event = np.full((HOURS, 1), k % 2)
            self.bodies.append(np.concatenate([vitals.round(1), event], 1).astype('float32').tobytes())

    def export(self, stays, shards=8):
        writers = [tf.io.TFRecordWriter(os.path.join(self.root, 'stays-%d.tfrecord' % s)) for s in range(shards)]
        for k in range(stays):
            writers[k % shards].write(self.bodies[int(self.rng.integers(len(self.bodies)))])
        for w in writers:
            w.close()


def parse(records):
    table = tf.reshape(tf.io.decode_raw(records, tf.float32), (-1, HOURS, len(COLUMNS)))
    return table[..., :-1], table[:, 0, -1]


def stays(root, batch):
    paths = sorted(tf.io.gfile.glob(os.path.join(root, '*.tfrecord')))
    ds = tf.data.TFRecordDataset(paths, num_parallel_reads=2).shuffle(2000)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def build():
    inp = layers.Input((HOURS, 6))
    h = layers.LayerNormalization()(inp)
    h = layers.Conv1D(16, 5, activation='relu')(h)
    h = layers.GlobalMaxPooling1D()(h)
    h = layers.Dense(16, activation='relu')(h)
    model = keras.Model(inp, layers.Dense(1)(h))
    model.compile(keras.optimizers.Adam(3e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def main(count=18_000, batch=60):
    keras.utils.set_random_seed(31)
    root = tempfile.mkdtemp(prefix='stays_')
    try:
        Hospital(root).export(count)
        model = build()
        t0 = time.time()
        model.fit(stays(root, batch), epochs=1, verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == '__main__':
    main()
