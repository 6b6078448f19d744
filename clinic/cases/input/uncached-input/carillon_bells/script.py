"""Which bell of the carillon was struck? One-second recordings, log spectrogram, small CNN."""
import dataclasses
import time

import keras
import numpy as np
import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE


@dataclasses.dataclass
class Setup:
    bells: int = 23
    rate: int = 16000
    clips: int = 768
    batch: int = 32
    epochs: int = 10
    bands: int = 48


def strikes(s: Setup):
    rng = np.random.default_rng(14)
    t = np.arange(s.rate) / s.rate
    bell = rng.integers(0, s.bells, s.clips)
    f = 220.0 * 2 ** (bell / 12)
    wave = np.zeros((s.clips, s.rate), np.float32)
    for partial, decay in ((0.5, 1.0), (1.0, 1.6), (1.2, 2.5), (2.0, 4.0), (2.67, 6.0)):
        tone = np.sin(2 * np.pi * partial * f[:, None] * t[None]) * np.exp(-decay * t)[None]
        wave += (tone * rng.uniform(0.2, 1.0, (s.clips, 1))).astype(np.float32)
    wave += rng.normal(0, 0.05, wave.shape).astype(np.float32)
    return wave, bell.astype(np.int32)


def spectrogram(s: Setup):
    mel = tf.signal.linear_to_mel_weight_matrix(s.bands, 513, s.rate, 80.0, 7000.0)

    def make(wave, bell):
        power = tf.abs(tf.signal.stft(wave, 1024, 64)) ** 2
        bands = tf.math.log(tf.tensordot(power, mel, 1) + 1e-4)
        bands = (bands - tf.reduce_mean(bands)) / (tf.math.reduce_std(bands) + 1e-5)
        return bands[::4, :, None], bell

    return make


def datasets(s: Setup):
    wave, bell = strikes(s)
    ds = tf.data.Dataset.from_tensor_slices((wave, bell))
    ds = ds.map(spectrogram(s), num_parallel_calls=AUTOTUNE)
    ds = ds.shuffle(s.clips)
    return ds.batch(s.batch, drop_remainder=True).prefetch(AUTOTUNE)


def build(s: Setup, shape):
    return keras.Sequential([
        keras.Input(shape),
        keras.layers.Conv2D(12, 5, strides=2, activation="relu"),
        keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(s.bells),
    ])


def main():
    s = Setup()
    ds = datasets(s)
    model = build(s, ds.element_spec[0].shape[1:])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    start = time.perf_counter()
    model.fit(ds, epochs=s.epochs, shuffle=False, verbose=2)
    print("WORK", s.epochs * s.clips // s.batch * s.batch)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))


if __name__ == "__main__":
    main()
