"""Bird call classifier on short wav clips."""
import glob
import os
import shutil
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers

AUTOTUNE = tf.data.AUTOTUNE


@dataclass
class Config:
    clips: int = 500
    rate: int = 16000
    species: int = 5
    batch: int = 25
    epochs: int = 14
    mels: int = 48


cfg = Config()


def record_clips(folder):
    rng = np.random.default_rng(11)
    t = np.arange(cfg.rate * 2) / cfg.rate
    tones = [np.sin(2 * np.pi * (900 + 700 * s) * t) for s in range(cfg.species)]
    for i in range(cfg.clips):
        s = i % cfg.species
        wave = 0.3 * tones[s] + 0.2 * np.roll(tones[0], i) + 0.05 * rng.standard_normal(t.size)
        wav = tf.audio.encode_wav(wave[:, None].astype("float32"), cfg.rate)
        with open(os.path.join(folder, f"{s}_{i:04d}.wav"), "wb") as f:
            f.write(wav.numpy())


mel_matrix = tf.signal.linear_to_mel_weight_matrix(cfg.mels, 513, cfg.rate, 80.0, 7600.0)


def to_logmel(path):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
    audio = tf.squeeze(audio, -1)
    spec = tf.abs(tf.signal.stft(audio, 1024, 160, fft_length=1024))
    mel = tf.matmul(tf.square(spec), mel_matrix)
    logmel = tf.math.log(mel + 1e-6)
    logmel = (logmel - tf.reduce_mean(logmel)) / (tf.math.reduce_std(logmel) + 1e-6)
    name = tf.strings.split(path, os.sep)[-1]
    label = tf.strings.to_number(tf.strings.substr(name, 0, 1), tf.int32)
    return logmel[..., None], label


def pipeline(folder):
    files = sorted(glob.glob(os.path.join(folder, "*.wav")))
    ds = tf.data.Dataset.from_tensor_slices(files)
    ds = ds.map(to_logmel, num_parallel_calls=AUTOTUNE)
    ds = ds.shuffle(len(files), seed=1)
    ds = ds.batch(cfg.batch, num_parallel_calls=AUTOTUNE)
    return ds.prefetch(AUTOTUNE)


def classifier():
    return keras.Sequential([
        layers.Input((194, cfg.mels, 1)),
        layers.Conv2D(8, (5, 5), strides=(4, 2), activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(cfg.species, activation="softmax"),
    ])


folder = tempfile.mkdtemp(prefix="calls_")
record_clips(folder)
model = classifier()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t = time.time()
model.fit(pipeline(folder), epochs=cfg.epochs, verbose=2)
t = time.time() - t
shutil.rmtree(folder)
print("WORK", cfg.clips * cfg.epochs)
print("TRAIN_SECONDS %.2f" % t)
