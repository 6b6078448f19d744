"""Denoiser for micrographs with its own training loop."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE, BATCH, EPOCHS, SIGMA = 64, 16, 2, .15


def micrographs(n=960, seed=61):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 200, (n, 8, 8, 1)).astype('uint8')
    return cells.repeat(SIZE // 8, 1).repeat(SIZE // 8, 2)


def build():
    x = inp = keras.Input((SIZE, SIZE, 1))
    x = layers.Conv2D(24, 5, strides=2, padding='same', activation='relu')(x)
    x = skip = layers.Conv2D(56, 3, padding='same', activation='relu')(x)
    x = layers.Conv2D(80, 3, strides=2, padding='same', activation='relu')(x)
    x = layers.Conv2D(80, 3, padding='same', activation='relu')(x)
    x = layers.Conv2DTranspose(56, 2, strides=2, padding='same')(x)
    x = layers.Conv2D(56, 3, padding='same', activation='relu')(x + skip)
    return keras.Model(inp, layers.Conv2DTranspose(1, 4, strides=2, padding='same')(x))


class Denoiser:
    def __init__(self, lr=1e-3):
        self.net = build()
        self.optimizer = keras.optimizers.Adam(lr)
        self.optimizer.build(self.net.trainable_variables)
        self.error = keras.metrics.Mean()

    @tf.function
    def train_step(self, clean):
        noisy = clean + tf.random.normal(tf.shape(clean), stddev=SIGMA)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(noisy, training=True) - clean))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        self.error.update_state(loss)

    def epoch(self, ds):
        self.error.reset_state()
        for clean in ds:
            self.train_step(clean)
        return float(self.error.result())


if __name__ == '__main__':
    keras.utils.set_random_seed(61)
    pictures = micrographs()
    ds = tf.data.Dataset.from_tensor_slices(pictures).shuffle(len(pictures))
    ds = ds.batch(BATCH, drop_remainder=True)
    ds = ds.map(lambda x: tf.cast(x, tf.float32) / 255., num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.prefetch(tf.data.AUTOTUNE)
    job = Denoiser()
    t0 = time.time()
    for e in range(EPOCHS):
        print('epoch %d  mse %.4f' % (e, job.epoch(ds)))
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))
