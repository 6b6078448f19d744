import os

import numpy as np
import tensorflow as tf


def get_spectrogram(path):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path))
    spectrogram = tf.signal.stft(tf.squeeze(audio[:16000], -1), frame_length=255, frame_step=128)
    label = tf.strings.split(path, os.path.sep)[-2]
    return tf.abs(spectrogram)[..., None], tf.argmax(label == np.array(["yes", "no", "go"]))


files = tf.io.gfile.glob("speech_commands/*/*.wav")
AUTOTUNE = tf.data.AUTOTUNE
train_ds = tf.data.Dataset.from_tensor_slices(files[:6400]).map(get_spectrogram, num_parallel_calls=AUTOTUNE)
train_ds = train_ds.batch(64).cache().prefetch(AUTOTUNE)
val_ds = tf.data.Dataset.from_tensor_slices(files[6400:7200]).map(get_spectrogram, num_parallel_calls=AUTOTUNE).batch(64).cache().prefetch(AUTOTUNE)
model = tf.keras.Sequential([tf.keras.layers.Resizing(32, 32), tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.Flatten(), tf.keras.layers.Dense(3)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train_ds, validation_data=val_ds, epochs=10)
