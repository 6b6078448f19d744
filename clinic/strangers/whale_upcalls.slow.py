"""Detect right whale up-calls in one-second hydrophone clips."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
RATE = 8000
root = pathlib.Path(tempfile.mkdtemp(prefix="whale_"))
AUTO = tf.data.AUTOTUNE


def clip(positive):
    t = np.arange(2 * RATE) / RATE
    wave = rng.normal(0, 0.1, t.size)
    if positive:
        f0 = rng.uniform(80, 150)
        wave += 0.2 * np.sin(2 * np.pi * (f0 * t + 60 * t ** 2))
    return wave.astype("float32")


for i in range(320):
    wav = tf.audio.encode_wav(clip(i % 2)[:, None], RATE)
    tf.io.write_file(str(root / f"{i:04d}_{i % 2}.wav"), wav)

mel = tf.signal.linear_to_mel_weight_matrix(40, 257, RATE, 20.0, 2000.0)


def features(path):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
    audio = tf.squeeze(audio, -1)
    audio = audio - tf.reduce_mean(audio)
    spec = tf.abs(tf.signal.stft(audio, 512, 32, fft_length=512))
    logmel = tf.math.log(tf.matmul(spec, mel) + 1e-5)
    logmel = logmel - tf.sort(logmel, axis=0)[tf.shape(logmel)[0] // 2]
    label = tf.strings.to_number(tf.strings.substr(path, -5, 1))
    return logmel[::4], label


files = tf.data.Dataset.list_files(str(root / "*.wav"), seed=5)
train = files.map(features, num_parallel_calls=AUTO)
train = train.shuffle(320, seed=5)
train = train.batch(16, drop_remainder=True).prefetch(AUTO)

model = tf.keras.Sequential([
    tf.keras.layers.Conv1D(16, 7, strides=2, activation="relu"),
    tf.keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(1),
])
model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, epochs=10, verbose=2)
