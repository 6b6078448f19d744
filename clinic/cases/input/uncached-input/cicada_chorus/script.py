"""Cicada or not, out of one-second field recordings.

Title: Spotting cicadas with log-mel spectrograms
Description: tf.data + tf.signal + a small convnet.
"""
import os
import tempfile
import wave

import numpy as np
import tensorflow as tf
import keras
from keras import layers

RATE = 16000
BATCH_SIZE = 24
EPOCHS = 8

"""
## Recordings
"""


def record(folder, n=320, seed=2):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE) / RATE
    files, tags = [], []
    for k in range(n):
        tag = k % 2
        clip = rng.normal(0, 0.2, RATE)
        if tag:
            clip += 0.2 * np.sin(2 * np.pi * rng.uniform(3500, 5000) * t) * (np.sin(60 * t) > 0)
        pcm = (np.clip(clip, -1, 1) * 32767).astype("<i2")
        path = os.path.join(folder, f"{k:04d}.wav")
        with wave.open(path, "wb") as w:
            w.setnchannels(1), w.setsampwidth(2), w.setframerate(RATE)
            w.writeframes(pcm.tobytes())
        files.append(path), tags.append(tag)
    return files, tags


"""
## Pipeline
"""


def read_clip(path, tag):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1,
                                   desired_samples=RATE)
    return audio[:, 0], tag


def log_mel(audio, tag):
    spec = tf.abs(tf.signal.stft(audio, 1024, 64, fft_length=2048))
    mel = tf.signal.linear_to_mel_weight_matrix(48, 1025, RATE, 200., 7600.)
    return tf.math.log(tf.matmul(spec, mel) + 1e-5)[::4, :, None], tag


def make_dataset(files, tags):
    ds = tf.data.Dataset.from_tensor_slices((files, tags))
    ds = ds.map(read_clip, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(len(files), seed=2).batch(BATCH_SIZE)
    return ds.prefetch(tf.data.AUTOTUNE)


"""
## Model and training
"""

keras.utils.set_random_seed(2)
with tempfile.TemporaryDirectory() as folder:
    train_ds = make_dataset(*record(folder))
    model = keras.Sequential([
        keras.Input((59, 48, 1)),
        layers.BatchNormalization(),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(1),
    ])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    history = model.fit(train_ds, epochs=EPOCHS, verbose=2)
print([round(v, 3) for v in history.history["loss"]])
