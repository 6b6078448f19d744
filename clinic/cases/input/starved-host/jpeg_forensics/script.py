"""Guess the JPEG quality a picture was last saved with (forensics). Training pairs are made on the fly."""
import time
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SETTINGS = {
    'seed': 19,
    'patch': 192,
    'batch_size': 32,
    'train_steps': 150,
    'runtime': {'io_threads': 1, 'read_ahead': 4, 'ordered': False},
}


def originals(n=72, side=288, seed=19):
    rng = np.random.default_rng(seed)
    out = np.empty((n, side, side, 3), 'uint8')
    for k in range(n):
        coarse = rng.integers(20, 230, (12, 12, 3)).repeat(side // 12, 0).repeat(side // 12, 1)
        out[k] = np.clip(coarse + rng.normal(0, 8, coarse.shape), 0, 255)
    return out


class PairMaker:
    lowest, highest = 30, 96

    def __init__(self, patch):
        self.patch = patch

    def pair(self, im):
        im = tf.image.random_crop(im, (self.patch, self.patch, 3))
        quality = tf.random.uniform((), self.lowest, self.highest, tf.int32)
        im = tf.ensure_shape(tf.image.adjust_jpeg_quality(im, quality), (self.patch, self.patch, 3))
        return im, tf.cast(quality, tf.float32) / 100


def tune(ds, runtime):
    o = tf.data.Options()
    o.deterministic = runtime.ordered
    o.threading.private_threadpool_size = runtime.io_threads
    return ds.with_options(o)


def feed(settings):
    runtime = SimpleNamespace(**settings['runtime'])
    ds = tf.data.Dataset.from_tensor_slices(originals(seed=settings['seed']))
    ds = ds.repeat().shuffle(72)
    ds = ds.map(PairMaker(settings['patch']).pair, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(settings['batch_size'], drop_remainder=True)
    return tune(ds.prefetch(runtime.read_ahead), runtime)


class QualityNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.scale = layers.Rescaling(1 / 127.5, offset=-1)
        self.grid = layers.Conv2D(20, 8, strides=8, activation='relu')
        self.mix = layers.Conv2D(24, 1, activation='relu')
        self.pool = layers.GlobalAveragePooling2D()
        self.out = layers.Dense(1)

    def call(self, x):
        return self.out(self.pool(self.mix(self.grid(self.scale(x)))))


def main(settings):
    keras.utils.set_random_seed(settings['seed'])
    net = QualityNet()
    net.compile(keras.optimizers.Adam(2e-3), loss='mae')
    ds = feed(settings)
    t0 = time.time()
    net.fit(ds, steps_per_epoch=settings['train_steps'] // 3, epochs=3, verbose=2)
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main(SETTINGS)
