#!/usr/bin/env python3
"""Denoising autoencoder for ground-motion records, trained from one TFRecord archive."""
import argparse
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SAMPLES = 16_384
FRAMES, BANDS = 249, 40


class Archive:
    def __init__(self, folder):
        self.path = str(pathlib.Path(folder) / "quakes.tfrecord")
        self.mel = tf.signal.linear_to_mel_weight_matrix(BANDS, 257, 100, 0.5, 48.0)

    def record(self, count, seed=9):
        g = np.random.default_rng(seed)
        t = np.arange(SAMPLES, dtype="float32") / 100
        with tf.io.TFRecordWriter(self.path) as w:
            for _ in range(count):
                onset = g.uniform(10, 100)
                ring = np.sin(6.28 * g.uniform(1, 9) * t) * np.exp(-0.1 * np.clip(t - onset, 0, None)) * (t > onset)
                w.write((900 * ring + 60 * g.standard_normal(SAMPLES)).astype("<i2").tobytes())
        self.count = count
        return self

    def _picture(self, blob):
        wave = tf.cast(tf.io.decode_raw(blob, tf.int16), tf.float32) / 1000.0
        wave = tf.ensure_shape(wave, [SAMPLES])
        power = tf.abs(tf.signal.stft(wave, 512, 64))
        bands = tf.math.log(tf.matmul(power, self.mel) + 1e-3)
        return (bands - tf.reduce_mean(bands)) / (tf.math.reduce_std(bands) + 1e-6)

    def stream(self, batch):
        ds = tf.data.TFRecordDataset(self.path)
        ds = ds.map(self._picture, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(self.count, seed=4)
        ds = ds.batch(batch, drop_remainder=True)
        return ds.map(lambda p: (p, p), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def autoencoder(width):
    pic = keras.Input((FRAMES, BANDS))
    h = layers.GaussianNoise(0.3)(pic)
    h = layers.Conv1D(width, 5, strides=4, padding="same", activation="relu")(h)
    h = layers.Conv1D(width // 2, 3, padding="same", activation="relu")(h)
    h = layers.Conv1D(width, 3, padding="same", activation="relu")(h)
    h = layers.UpSampling1D(4)(h)
    h = layers.Cropping1D((0, 63 * 4 - FRAMES))(h)
    return keras.Model(pic, layers.Dense(BANDS)(h))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--records", type=int, default=640)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=32)
    ap.add_argument("--width", type=int, default=32)
    o = ap.parse_args()

    with tempfile.TemporaryDirectory() as tmp:
        ds = Archive(tmp).record(o.records).stream(o.batch)
        net = autoencoder(o.width)
        net.compile("adam", "mse")
        net.fit(ds.take(2), verbose=0)
        clock = time.perf_counter()
        net.fit(ds, epochs=o.epochs, verbose=2)
        clock = time.perf_counter() - clock
    print("WORK", o.epochs * (o.records // o.batch) * o.batch)
    print("TRAIN_SECONDS", f"{clock:.3f}")


if __name__ == "__main__":
    main()
