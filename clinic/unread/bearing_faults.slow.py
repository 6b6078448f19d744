"""Bearing fault detection from vibration windows."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Options:
    samples: int = 4_000_000
    channels: int = 4
    window: int = 2048
    windows_per_epoch: int = 40_000
    batch_size: int = 256
    epochs: int = 12
    faults: int = 6


class WindowReader:
    def __init__(self, opt):
        self.opt = opt
        rng = np.random.default_rng(17)
        signal = rng.standard_normal((opt.samples, opt.channels), dtype=np.float32)
        self.signal = tf.constant(signal)
        self.starts = rng.integers(0, opt.samples - opt.window, opt.windows_per_epoch)
        self.labels = rng.integers(0, opt.faults, opt.windows_per_epoch)

    def cut(self, start, label):
        piece = tf.slice(self.signal, [start, 0], [self.opt.window, self.opt.channels])
        piece += tf.random.normal(tf.shape(piece), stddev=0.02)
        spectrum = tf.abs(tf.signal.rfft(tf.transpose(piece)))
        return tf.transpose(spectrum)[: self.opt.window // 2], label

    def stream(self):
        starts = self.starts
        ds = tf.data.Dataset.from_tensor_slices((starts, self.labels))
        ds = ds.map(self.cut, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(len(starts), reshuffle_each_iteration=True)
        ds = ds.batch(self.opt.batch_size, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)


def detector(opt):
    return tf.keras.Sequential(
        [
            tf.keras.Input((opt.window // 2, opt.channels)),
            tf.keras.layers.Conv1D(64, 9, strides=2, activation="relu"),
            tf.keras.layers.Conv1D(128, 9, strides=2, activation="relu"),
            tf.keras.layers.Conv1D(128, 9, strides=2, activation="relu"),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(opt.faults),
        ]
    )


def main():
    opt = Options()
    model = detector(opt)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(WindowReader(opt).stream(), epochs=opt.epochs, verbose=2)


if __name__ == "__main__":
    main()
