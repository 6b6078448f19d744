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


class Jitter(layers.Layer):
    def __init__(self, side, deg, zoom, shift, light, grain, **kwargs):
        super().__init__(**kwargs)
        self.side, self.deg, self.zoom, self.shift, self.light, self.grain = side, deg, zoom, shift, light, grain

    def call(self, images, training=False):
        if not training:
            return images
        n = tf.shape(images)[0]
        u = tf.random.uniform((n, 5), -1, 1)
        th, s, c = float(np.deg2rad(self.deg)) * u[:, 0], 1 + self.zoom * u[:, 1], (self.side - 1) / 2
        cos, sin, zero = s * tf.cos(th), s * tf.sin(th), tf.zeros((n,))
        left = c - c * cos + c * sin + self.shift * u[:, 3]
        top = c - c * cos - c * sin + self.shift * u[:, 2]
        out = tf.raw_ops.ImageProjectiveTransformV3(
            images=images, transforms=tf.stack([cos, -sin, left, sin, cos, top, zero, zero], 1),
            output_shape=tf.constant([self.side, self.side]), fill_value=tf.constant(0.),
            interpolation='BILINEAR', fill_mode='NEAREST')
        out = out * (1 + self.light * u[:, 4, None, None, None])
        out += tf.random.normal(tf.shape(out), 0, self.grain / 255)
        return tf.ensure_shape(out, (None, self.side, self.side, 1))

    def compute_output_shape(self, input_shape):
        return input_shape


def training_set(images, labels, batch):
    def prepare(im, label):
        return tf.cast(im, tf.float32) / 255, label

    ds = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images))
    ds = ds.batch(batch, drop_remainder=True)
    return ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def classifier():
    inp = keras.Input((SIDE, SIDE, 1))
    h = Jitter(SIDE, **JITTER)(inp)
    for width in (8, 16, 24):
        h = layers.Conv2D(width, 3, strides=2, padding='same', activation='relu')(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(3, activation='softmax')(h))


def main():
    keras.utils.set_random_seed(8)
    images, labels = scans(1600)
    model = classifier()
    model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
    ds = training_set(images, labels, 64)
    t0 = time.time()
    model.fit(ds, epochs=5, verbose=2)
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main()
