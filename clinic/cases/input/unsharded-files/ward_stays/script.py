"""Deterioration model. Input is the hospital's export: vitals of the first 24 hours, one CSV for each stay."""
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
            rows = [','.join('%.1f' % v for v in row) + ',%d' % (k % 2) for row in vitals]
            self.bodies.append('\n'.join([','.join(COLUMNS)] + rows) + '\n')

    def export(self, stays):
        for k in range(stays):
            with open(os.path.join(self.root, 'stay_%06d.csv' % k), 'w') as f:
                f.write(self.bodies[int(self.rng.integers(len(self.bodies)))])


def parse(lines):
    cols = tf.io.decode_csv(lines, [[0.]] * len(COLUMNS))
    return tf.stack(cols[:-1], 1), cols[-1][0]


def stays(root, batch):
    def one(path):
        return tf.data.TextLineDataset(path).skip(1).batch(HOURS, drop_remainder=True).map(parse)

    paths = tf.data.Dataset.list_files(os.path.join(root, '*.csv'), shuffle=True, seed=1)
    ds = paths.interleave(one, cycle_length=8, block_length=1)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


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
