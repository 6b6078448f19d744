"""Compound class from profile mass spectra.

The acquisition software stores each scan as in mzML: float32 intensities, zlib, base64.
A run is a long list of draws from the reference library, each seen with its own
calibration drift and detector noise; the network sees every draw once.
"""
import argparse
import base64
import time
import zlib

import numpy as np
import tensorflow as tf

POINTS = 32768
BINS = 256
CLASSES = 8


def build_library(n_compounds, seed=23):
    rng = np.random.default_rng(seed)
    patterns = rng.integers(500, POINTS - 500, (CLASSES, 30))
    payloads, classes = [], []
    for k in range(n_compounds):
        cls = k % CLASSES
        intensity = rng.integers(0, 6, POINTS).astype("float32")
        peaks = np.concatenate([patterns[cls], rng.integers(500, POINTS - 500, 60)])
        for offset, height in ((-2, 0.2), (-1, 0.7), (0, 1.0), (1, 0.7), (2, 0.2)):
            intensity[peaks + offset] += height * rng.gamma(2.0, 400.0, len(peaks)).astype("float32")
        payloads.append(base64.urlsafe_b64encode(zlib.compress(intensity.tobytes(), 1)))
        classes.append(cls)
    return payloads, np.array(classes, dtype="int32")


class ScanReader:
    def __init__(self, payloads, classes, max_drift=40):
        self.payloads = tf.constant(payloads)
        self.classes = tf.constant(classes)
        self.max_drift = max_drift

    def read(self, index):
        packed = tf.io.decode_base64(tf.gather(self.payloads, index))
        raw = tf.io.decode_compressed(packed, compression_type="ZLIB")
        intensity = tf.reshape(tf.io.decode_raw(raw, tf.float32), (POINTS,))
        drift = tf.random.uniform((), -self.max_drift, self.max_drift + 1, dtype=tf.int32)
        intensity = tf.roll(intensity, drift, axis=0)
        binned = tf.reduce_max(tf.reshape(intensity, (BINS, POINTS // BINS)), axis=1)
        binned = tf.sqrt(binned) + tf.random.normal((BINS,), stddev=0.3)
        return binned[:, None] / 30.0, tf.gather(self.classes, index)

    def stream(self, draws, batch_size):
        return (
            tf.data.Dataset.from_tensor_slices(draws)
            .map(self.read)
            .batch(batch_size, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE)
        )


def spectrum_net():
    x = inputs = tf.keras.Input((BINS, 1))
    for filters in (12, 24):
        x = tf.keras.layers.Conv1D(filters, 5, strides=2, activation="relu")(x)
    x = tf.keras.layers.Flatten()(x)
    x = tf.keras.layers.Dense(48, activation="relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(CLASSES)(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--scans", type=int, default=12000)
    ap.add_argument("--library", type=int, default=320)
    ap.add_argument("--batch-size", type=int, default=48)
    args = ap.parse_args()

    tf.keras.utils.set_random_seed(4)
    payloads, classes = build_library(args.library)
    print("library: %d scans, %.1f kB each" % (len(payloads), len(payloads[0]) / 1e3))
    draws = np.random.default_rng(1).integers(0, args.library, args.scans)

    reader = ScanReader(payloads, classes)
    net = spectrum_net()
    net.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    began = time.time()
    result = net.fit(reader.stream(draws, args.batch_size), verbose=2)
    took = time.time() - began
    print("running accuracy %.3f" % result.history["accuracy"][-1])
    print("WORK", args.scans // args.batch_size * args.batch_size)
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    main()
