"""Atrial fibrillation screening on ten second single-lead strips (300 Hz)."""
import json
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

DEFAULTS = {
    "strips": 48000,
    "length": 3000,
    "batch": 256,
    "epochs": 35,
    "lr": 1e-3,
    "stages": ["augment", "shuffle", "batch", "prefetch"],
}


def load_strips(n, length, seed):
    rng = np.random.default_rng(seed)
    label = (rng.random(n) < 0.3).astype(np.float32)
    t = np.arange(length, dtype=np.float32) / 300.0
    rate = rng.uniform(0.9, 1.8, n).astype(np.float32)
    out = np.empty((n, length), np.float32)
    for lo in range(0, n, 2000):
        hi = min(lo + 2000, n)
        wobble = label[lo:hi, None] * np.cumsum(
            rng.normal(0, 0.02, (hi - lo, length)).astype(np.float32), axis=1)
        phase = 2 * np.pi * rate[lo:hi, None] * t + wobble
        out[lo:hi] = np.exp(40 * (np.cos(phase) - 1)) + 0.15 * np.cos(phase - 1.2)
    return out, label


class Pipeline:
    def __init__(self, strips, label, cfg):
        self.strips = tf.constant(strips)
        self.label = tf.constant(label)
        self.cfg = cfg

    def _augment_one(self, i):
        n = self.cfg["length"]
        x = self.strips[i]
        pos = tf.range(n, dtype=tf.float32)
        warp = tf.random.uniform([], -40.0, 40.0) * tf.sin(
            np.pi * pos / n * tf.random.uniform([], 1.0, 4.0))
        pos = tf.clip_by_value(pos + warp, 0.0, n - 1.001)
        left = tf.cast(tf.floor(pos), tf.int32)
        frac = pos - tf.cast(left, tf.float32)
        x = tf.gather(x, left) * (1 - frac) + tf.gather(x, left + 1) * frac

        spectrum = tf.signal.rfft(x + tf.random.normal([n], stddev=0.05))
        hz = tf.range(n // 2 + 1, dtype=tf.float32) * (300.0 / n)
        low = tf.random.uniform([], 0.3, 0.8)
        high = tf.random.uniform([], 35.0, 60.0)
        gain = tf.sigmoid((hz - low) * 8.0) * tf.sigmoid((high - hz) * 0.5)
        x = tf.signal.irfft(spectrum * tf.cast(gain, tf.complex64), fft_length=[n])
        x = (x - tf.reduce_mean(x)) / (tf.math.reduce_std(x) + 1e-5)
        return tf.ensure_shape(x, [n])[:, None], self.label[i]

    def augment(self, ds):
        return ds.map(self._augment_one, num_parallel_calls=tf.data.AUTOTUNE)

    def shuffle(self, ds):
        return ds.shuffle(self.cfg["strips"])

    def batch(self, ds):
        return ds.batch(self.cfg["batch"], drop_remainder=True)

    def prefetch(self, ds):
        return ds.prefetch(tf.data.AUTOTUNE)

    def build(self):
        ds = tf.data.Dataset.range(self.cfg["strips"])
        for stage in self.cfg["stages"]:
            ds = getattr(self, stage)(ds)
        return ds


def network(length):
    x = inp = keras.Input((length, 1))
    for width in (32, 64, 64, 128, 128):
        x = keras.layers.Conv1D(width, 9, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.Activation("swish")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dropout(0.3)(x)
    return keras.Model(inp, keras.layers.Dense(1)(x))


def main():
    cfg = dict(DEFAULTS)
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as f:
            cfg.update(json.load(f))
    strips, label = load_strips(cfg["strips"], cfg["length"], 11)
    held, held_label = load_strips(2000, cfg["length"], 12)
    held = (held - held.mean(1, keepdims=True)) / held.std(1, keepdims=True)

    model = network(cfg["length"])
    model.compile(
        optimizer=keras.optimizers.Adam(cfg["lr"]),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True, name="auc")],
    )
    held_ds = tf.data.Dataset.from_tensor_slices((held[..., None], held_label))
    held_ds = held_ds.batch(500).cache().prefetch(tf.data.AUTOTUNE)
    model.fit(
        Pipeline(strips, label, cfg).build(),
        validation_data=held_ds,
        epochs=cfg["epochs"],
        verbose=2,
    )
    model.save("af_screen.keras")


if __name__ == "__main__":
    main()
