"""Anomaly autoencoder for wind-turbine SCADA spectra: every sample is drawn fresh from a generative
load model, featurised and reconstructed."""
import tensorflow as tf
import keras
from keras import layers

BINS = 160
keras.utils.set_random_seed(12)


def spectrum(i):
    s = tf.stack([i, i + 17])
    wind = tf.random.stateless_gamma((18, 1024), s, 2.0)
    t = tf.range(1024, dtype=tf.float32) / 100.0
    rotor = tf.random.stateless_uniform((18, 1), s + 1, 0.8, 1.6)
    load = tf.sin(6.2832 * rotor * t) * wind + 0.3 * tf.sin(18.85 * rotor * t)
    power = tf.abs(tf.signal.rfft(load)) ** 2
    mean = tf.math.log(tf.reduce_mean(power, 0) + 1e-3)[1:BINS + 1]
    return (mean - tf.reduce_mean(mean)) / (tf.math.reduce_std(mean) + 1e-5)


def reproducible():
    o = tf.data.Options()
    o.deterministic = True
    o.autotune.enabled = True
    o.threading.private_threadpool_size = 1
    o.threading.max_intra_op_parallelism = 1
    return o


def stream(batch):
    ds = tf.data.Dataset.counter().map(spectrum, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch).map(lambda x: (x, x))
    return ds.with_options(reproducible()).prefetch(tf.data.AUTOTUNE)


class AutoEncoder(keras.Model):
    def __init__(self, code=6):
        super().__init__()
        self.enc = keras.Sequential([layers.Dense(64, activation="elu"), layers.Dense(code)])
        self.dec = keras.Sequential([layers.Dense(64, activation="elu"), layers.Dense(BINS)])

    def call(self, x):
        return self.dec(self.enc(x))


ae = AutoEncoder()
ae.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="mse")
ae.fit(stream(16), steps_per_epoch=50, epochs=6, verbose=2)
