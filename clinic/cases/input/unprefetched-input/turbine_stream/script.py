"""Fault scorer for the turbine fleet: one pass over the dump that the historian writes every night.

A line of the dump is  LABEL;v,v,v,...  with 60 ticks of 64 channels.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

TICKS, CHANNELS = 60, 64


def write_dump(path, rows, seed=7):
    rng = np.random.default_rng(seed)
    pool = []
    for _ in range(160):
        label = int(rng.integers(0, 2))
        wave = np.cumsum(rng.normal(0, 0.05 + 0.1 * label, (TICKS, CHANNELS)), 0)
        pool.append('%d;%s' % (label, ','.join('%.3f' % v for v in wave.ravel())))
    with open(path, 'w') as f:
        for k in rng.integers(0, len(pool), rows):
            f.write(pool[k])
            f.write('\n')
    return path


class Telemetry:
    def __init__(self, path, knobs):
        self.path, self.knobs = path, knobs

    def _parse(self, lines):
        parts = tf.strings.split(lines, ';').to_tensor()
        y = tf.strings.to_number(parts[:, 0])
        x = tf.strings.to_number(tf.strings.split(parts[:, 1], ',').values)
        return tf.reshape(x, (-1, TICKS, CHANNELS)), y[:, None]

    def dataset(self):
        opts = tf.data.Options()
        opts.deterministic = True
        opts.autotune.enabled = self.knobs['autotune']
        lines = tf.data.TextLineDataset(self.path, buffer_size=self.knobs['read_bytes'])
        ds = lines.batch(self.knobs['batch'], drop_remainder=True)
        ds = ds.map(self._parse)
        return ds.with_options(opts)


class Scorer:
    def __init__(self, units, lr):
        inp = layers.Input((TICKS, CHANNELS))
        h = layers.LSTM(units)(inp)
        h = layers.Dense(32, activation='relu')(h)
        self.net = keras.Model(inp, layers.Dense(1)(h))
        self.loss = keras.losses.BinaryCrossentropy(from_logits=True)
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.net.trainable_variables)
        self.mean = keras.metrics.Mean()
        self.update = tf.function(self._update)

    def _update(self, x, y):
        with tf.GradientTape() as tape:
            value = self.loss(y, self.net(x, training=True))
        grads = tape.gradient(value, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        self.mean.update_state(value)

    def one_pass(self, ds, every=50):
        for step, (x, y) in enumerate(ds):
            self.update(x, y)
            if step % every == every - 1:
                print('step %4d  loss %.4f' % (step + 1, float(self.mean.result())))
                self.mean.reset_state()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--rows', type=int, default=6720)
    ap.add_argument('--units', type=int, default=64)
    ap.add_argument('--lr', type=float, default=1e-3)
    a = ap.parse_args()
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as d:
        path = write_dump(os.path.join(d, 'site12.txt'), a.rows)
        knobs = {'batch': 32, 'autotune': False, 'read_bytes': 1 << 20}
        feed = Telemetry(path, knobs).dataset()
        scorer = Scorer(a.units, a.lr)
        t0 = time.time()
        scorer.one_pass(feed)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main()
