"""Locust density from field recordings: log-mel patches of one second of wing noise."""
import os
import tempfile
import wave

import numpy as np
import tensorflow as tf

RATE = 16000
BATCH = 32
EPOCHS = 22
CLIPS = 512
AUTOTUNE = tf.data.AUTOTUNE


def record_clips(folder):
    rng = np.random.default_rng(21)
    t = np.arange(RATE) / RATE
    density = rng.uniform(0, 1, CLIPS).astype("float32")
    names = []
    for i, d in enumerate(density):
        sound = 0.3 * np.sin(2 * np.pi * (180 + 60 * d) * t) + d * rng.normal(0, 0.2, RATE)
        name = os.path.join(folder, f"clip{i:04d}.wav")
        with wave.open(name, "wb") as w:
            w.setnchannels(1)
            w.setsampwidth(2)
            w.setframerate(RATE)
            w.writeframes((np.clip(sound, -1, 1) * 32000).astype("<i2").tobytes())
        names.append(name)
    return names, density


MEL = tf.signal.linear_to_mel_weight_matrix(40, 257, RATE, 60.0, 7000.0)


def to_patch(name, density):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(name), 1, RATE)
    frames = tf.signal.stft(sound[:, 0], 512, 64, fft_length=512)
    power = tf.square(tf.abs(frames))
    patch = tf.math.log(tf.matmul(power, MEL) + 1e-5)
    patch = (patch - tf.reduce_mean(patch)) / (tf.math.reduce_std(patch) + 1e-3)
    patch = tf.image.resize(patch[..., None], (48, 40))
    return patch, density


def build_net():
    net = tf.keras.Sequential(name="swarm")
    net.add(tf.keras.Input((48, 40, 1)))
    net.add(tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"))
    net.add(tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"))
    net.add(tf.keras.layers.Flatten())
    net.add(tf.keras.layers.Dense(32, activation="relu"))
    net.add(tf.keras.layers.Dense(1))
    return net


with tempfile.TemporaryDirectory(prefix="locust") as folder:
    names, density = record_clips(folder)
    clips = tf.data.Dataset.from_tensor_slices((names, density))
    clips = clips.map(to_patch, num_parallel_calls=AUTOTUNE)
    clips = clips.shuffle(CLIPS, seed=9).batch(BATCH).prefetch(AUTOTUNE)

    net = build_net()
    net.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    net.fit(clips, epochs=EPOCHS, verbose=2)
