#!/usr/bin/env python3
"""Which frog is calling at the pond?

Front end borrowed from the old speech-commands tutorial (spectrogram -> MFCC),
the classifier on top is a small 1-D convnet.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SPECIES = ["hyla", "bufo", "rana", "bombina", "alytes"]
RATE = 16000
SECONDS = 3
WINDOW = 480      # 30 ms
STRIDE = 160      # 10 ms
COEFFS = 20
FRAMES = 1 + (RATE * SECONDS - WINDOW) // STRIDE


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--per-species", type=int, default=64)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--seed", type=int, default=4)
    return p.parse_args()


def sing(rng, species):
    """A pulsed tone: carrier and pulse rate are what tells the species apart."""
    t = np.arange(RATE * SECONDS) / RATE
    carrier = 450.0 + 380.0 * species + rng.normal(0.0, 25.0)
    pulse = 4.0 + 2.5 * species + rng.normal(0.0, 0.3)
    gate = 0.5 * (1.0 + np.tanh(6.0 * np.sin(2 * np.pi * pulse * t + rng.uniform(0, 6.28))))
    wave = 0.25 * gate * np.sin(2 * np.pi * carrier * t)
    wave += 0.03 * rng.standard_normal(t.size)
    return wave.astype(np.float32)


def record_pond(folder, per_species, seed):
    rng = np.random.default_rng(seed)
    paths, labels = [], []
    for species, name in enumerate(SPECIES):
        for k in range(per_species):
            path = os.path.join(folder, f"{name}_{k:03d}.wav")
            wav = tf.audio.encode_wav(sing(rng, species)[:, None], RATE)
            tf.io.write_file(path, wav)
            paths.append(path)
            labels.append(species)
    return np.array(paths), np.array(labels, dtype=np.int32)


def front_end(path, label):
    audio, _ = tf.audio.decode_wav(
        tf.io.read_file(path), desired_channels=1, desired_samples=RATE * SECONDS)
    # the frog may start anywhere in the clip, and sit nearer or further away
    shift = tf.random.uniform([], 0, RATE, dtype=tf.int32)
    audio = tf.roll(audio, shift, axis=0)
    audio = audio * tf.random.uniform([], 0.5, 1.5)
    spectrogram = tf.raw_ops.AudioSpectrogram(
        input=audio, window_size=WINDOW, stride=STRIDE, magnitude_squared=True)
    mfcc = tf.raw_ops.Mfcc(
        spectrogram=spectrogram, sample_rate=RATE,
        upper_frequency_limit=7000.0, lower_frequency_limit=20.0,
        filterbank_channel_count=40, dct_coefficient_count=COEFFS)
    return tf.reshape(mfcc, [FRAMES, COEFFS]), label


def pond_dataset(paths, labels, batch, seed):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.shuffle(len(paths), seed=seed)
    ds = ds.map(front_end)
    ds = ds.batch(batch)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    return keras.Sequential([
        keras.Input((FRAMES, COEFFS)),
        layers.BatchNormalization(),
        layers.Conv1D(32, 7, strides=2, activation="relu"),
        layers.Conv1D(48, 5, strides=2, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(len(SPECIES)),
    ])


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)
    folder = tempfile.mkdtemp(prefix="frogs_")
    paths, labels = record_pond(folder, args.per_species, args.seed)
    print(len(paths), "clips in", folder)

    train = pond_dataset(paths, labels, args.batch, args.seed)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    t0 = time.perf_counter()
    model.fit(train, epochs=args.epochs, verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.perf_counter() - t0))


if __name__ == "__main__":
    main()
