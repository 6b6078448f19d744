"""Leaf disease from greyscale scans. The scans lie at any angle, hence the jitter."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE = 96
JITTER = {'deg': 25., 'zoom': .2, 'shift': 6., 'light': .25, 'grain': 9.}


def scans(n, seed=8):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIDE, :SIDE]
    label = rng.integers(0, 3, n)
    out = np.empty((n, SIDE, SIDE, 1), 'uint8')
    for k in range(n):
        cy, cx = rng.uniform(35, 60, 2)
        im = 180. * (((yy - cy) / 20) ** 2 + ((xx - cx) / 34) ** 2 < 1)
        im[(yy // 4 + xx // 4) % (2 + label[k]) == 0] *= .6
        out[k, ..., 0] = np.clip(im + rng.normal(20, 6, im.shape), 0, 255)
    return out, label.astype('int32')


class Jitter:
    def __init__(self, side, deg, zoom, shift, light, grain, seed=0):
        self.rng = np.random.default_rng(seed)
        self.side, self.deg, self.zoom, self.shift, self.light, self.grain = side, deg, zoom, shift, light, grain
        self.y, self.x = np.meshgrid(np.arange(side), np.arange(side), indexing='ij')

    def apply(self, im):
        u = self.rng.uniform(-1, 1, 5)
        th, s, c = np.deg2rad(self.deg) * u[0], 1 + self.zoom * u[1], (self.side - 1) / 2
        y, x = self.y - c, self.x - c
        sy = s * (np.cos(th) * y + np.sin(th) * x) + c + self.shift * u[2]
        sx = s * (np.cos(th) * x - np.sin(th) * y) + c + self.shift * u[3]
        y0 = np.clip(np.floor(sy).astype(int), 0, self.side - 2)
        x0 = np.clip(np.floor(sx).astype(int), 0, self.side - 2)
        fy, fx = np.clip(sy - y0, 0, 1), np.clip(sx - x0, 0, 1)
        g = im[..., 0].astype('float32')
        out = (g[y0, x0] * (1 - fy) * (1 - fx) + g[y0 + 1, x0] * fy * (1 - fx)
               + g[y0, x0 + 1] * (1 - fy) * fx + g[y0 + 1, x0 + 1] * fy * fx)
        out = out * (1 + self.light * u[4]) + self.rng.normal(0, self.grain, out.shape)
        return (out[..., None] / 255).astype('float32')


def training_set(images, labels, batch, jitter):
    def prepare(im, label):
        im = tf.numpy_function(jitter.apply, [im], tf.float32)
        return tf.ensure_shape(im, (SIDE, SIDE, 1)), label

    ds = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images))
    ds = ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def classifier():
    inp = keras.Input((SIDE, SIDE, 1))
    h = inp
    for width in (8, 16, 24):
        h = layers.Conv2D(width, 3, strides=2, padding='same', activation='relu')(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(3, activation='softmax')(h))


def main():
    keras.utils.set_random_seed(8)
    images, labels = scans(1600)
    model = classifier()
    model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
    ds = training_set(images, labels, 64, Jitter(SIDE, **JITTER))
    t0 = time.time()
    model.fit(ds, epochs=5, verbose=2)
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main()
