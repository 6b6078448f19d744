"""Hourly load forecast for a feeder, dilated conv net, history of three days."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Task:
    history: int = 72
    horizon: int = 6
    batch: int = 64
    hours: int = 32_000
    seed: int = 5


def feeder(task):
    rng = np.random.default_rng(task.seed)
    t = np.arange(task.hours)
    temp = 10 + 12 * np.sin(2 * np.pi * t / 8766) + 4 * np.sin(2 * np.pi * t / 24) + rng.normal(0, 1.5, t.size)
    load = 50 - .8 * temp + 9 * np.sin(2 * np.pi * (t - 7) / 24) - 6 * (t // 24 % 7 > 4) + rng.normal(0, 1, t.size)
    cols = np.stack([load, temp, np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24), t // 24 % 7 > 4], 1)
    cols = (cols - cols.mean(0)) / cols.std(0)
    return cols.astype('float32')


class Windows:
    """Turns a (hours, features) table into (history, horizon) pairs."""

    def __init__(self, task):
        self.task = task
        self.span = task.history + task.horizon

    def split(self, block):
        return block[:self.task.history], block[self.task.history:, 0]

    def of(self, table):
        ds = tf.data.Dataset.from_tensor_slices(table)
        ds = ds.window(self.span, shift=1, drop_remainder=True)
        ds = ds.flat_map(lambda w: w.batch(self.span, drop_remainder=True))
        ds = ds.map(self.split, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.shuffle(1500, seed=self.task.seed).batch(self.task.batch, drop_remainder=True).prefetch(4)


def forecaster(task, features):
    inp = layers.Input((task.history, features))
    h = layers.Conv1D(24, 3, padding='causal', activation='relu')(inp)
    h = layers.MaxPooling1D(2)(h)
    h = layers.Conv1D(32, 3, padding='causal', activation='relu')(h)
    h = layers.Flatten()(layers.MaxPooling1D(3)(h))
    model = keras.Model(inp, layers.Dense(task.horizon)(h))
    model.compile('adam', 'huber', metrics=['mae'])
    return model


def main():
    task = Task()
    keras.utils.set_random_seed(task.seed)
    table = feeder(task)
    model = forecaster(task, table.shape[1])
    t0 = time.time()
    model.fit(Windows(task).of(table), epochs=1, verbose=2)
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))


main()
