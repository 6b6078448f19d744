"""Detect fin whale, blue whale and ship noise in four second hydrophone clips."""
import argparse
import functools

import numpy as np
import tensorflow as tf
from tensorflow import keras

RATE = 8000
CLIP = 4 * RATE
CLASSES = ("ambient", "fin", "blue", "ship")

mel = tf.signal.linear_to_mel_weight_matrix(64, 257, RATE, 20.0, 3800.0)


def synthesize(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), n).astype(np.int32)
    t = np.arange(CLIP, dtype=np.float32) / RATE
    base = np.array([0.0, 120.0, 310.0, 900.0], np.float32)
    clips = np.empty((n, CLIP), np.int16)
    for lo in range(0, n, 500):
        part = labels[lo:lo + 500]
        tone = np.sin(2 * np.pi * base[part][:, None] * t[None])
        hiss = rng.standard_normal((len(part), CLIP), dtype=np.float32)
        clips[lo:lo + 500] = (4000 * tone + 2500 * hiss).clip(-32000, 32000)
    return clips, labels


def to_wave(clip, label):
    return tf.cast(clip, tf.float32) / 32768.0, label


def drift(wave, label):
    return tf.roll(wave, tf.random.uniform([], 0, CLIP, tf.int32), axis=0), label


def sea_state(wave, label):
    level = tf.random.uniform([], 0.0, 0.05)
    swell = tf.signal.irfft(
        tf.signal.rfft(tf.random.normal([CLIP]))
        * tf.cast(1.0 / tf.sqrt(1.0 + tf.range(CLIP // 2 + 1, dtype=tf.float32)), tf.complex64)
    )
    return wave * tf.random.uniform([], 0.5, 1.5) + level * swell, label


def log_mel(wave, label):
    power = tf.square(tf.abs(tf.signal.stft(wave, 512, 128)))
    return tf.math.log(tf.matmul(power, mel) + 1e-6)[..., None], label


def mask_bands(spec, label):
    start = tf.random.uniform([], 0, 56, tf.int32)
    bins = tf.range(64)
    keep = tf.logical_or(bins < start, bins >= start + 8)
    return spec * tf.cast(keep, tf.float32)[None, :, None], label


TRAIN_STAGES = (to_wave, drift, sea_state, log_mel, mask_bands)
PLAIN_STAGES = (to_wave, log_mel)


def chain(ds, stages):
    return functools.reduce(lambda d, stage: d.map(stage), stages, ds)


def train_set(clips, labels, batch):
    ds = tf.data.Dataset.from_tensor_slices((clips, labels)).shuffle(1000)
    return chain(ds, TRAIN_STAGES).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def check_set(clips, labels, batch):
    ds = tf.data.Dataset.from_tensor_slices((clips, labels))
    return chain(ds, PLAIN_STAGES).batch(batch).cache().prefetch(tf.data.AUTOTUNE)


def build():
    inp = keras.Input((247, 64, 1))
    x = inp
    for width in (32, 64, 128, 128):
        x = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
        x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(len(CLASSES))(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=8000)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--batch", type=int, default=128)
    args = p.parse_args()

    train = train_set(*synthesize(args.clips, 1), args.batch)
    check = check_set(*synthesize(args.clips // 10, 2), args.batch)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=check, epochs=args.epochs, verbose=2)
    model.save("whale_calls.keras")


if __name__ == "__main__":
    main()
