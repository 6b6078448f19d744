"""Mineral mixture of meteorites from reflectance spectra."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BANDS, MINERALS = 512, 10


def laboratory(n, seed):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.normal(size=(MINERALS, BANDS)), axis=1).astype(np.float32) / 10
    share = rng.dirichlet(np.ones(MINERALS), n).astype(np.float32)
    spectra = share @ ends + 0.02 * rng.standard_normal((n, BANDS), dtype=np.float32)
    return spectra, share


def remove_continuum(spectra):
    return spectra - spectra.mean(axis=1, keepdims=True)


def pipeline(spectra, share, batch):
    def prepare(s, m):
        s = tf.numpy_function(remove_continuum, [s], tf.float32)
        return tf.ensure_shape(s, (batch, BANDS)), m

    ds = tf.data.Dataset.from_tensor_slices((spectra, share))
    ds = ds.shuffle(len(spectra)).batch(batch, drop_remainder=True)
    return ds.map(prepare, num_parallel_calls=2).prefetch(tf.data.AUTOTUNE)


class MixtureNet(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.stack = [layers.Dense(width, activation="relu") for _ in range(3)]
        self.mix = layers.Dense(MINERALS, activation="softmax")

    def call(self, x):
        for layer in self.stack:
            x = layer(x)
        return self.mix(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--epochs", type=int, default=5)
    a = p.parse_args()
    keras.utils.set_random_seed(4)
    spectra, share = laboratory(8 * a.batch, 4)
    net = MixtureNet(a.width)
    net.compile(keras.optimizers.SGD(0.05, momentum=0.9), "kl_divergence")
    began = time.time()
    h = net.fit(pipeline(spectra, share, a.batch), epochs=a.epochs, verbose=0)
    took = time.time() - began
    print("divergence", [round(v, 4) for v in h.history["loss"]])
    print("WORK", a.epochs * 8 * a.batch)
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    main()
