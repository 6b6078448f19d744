"""Detect right-whale up-calls in hydrophone clips."""
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

PARAMS = dict(rate=4000, seconds=12, crop=8, clips=4000, batch=64, epochs=5)


class ClipStore:
    def __init__(self, folder, params):
        self.folder, self.p = folder, params
        self.paths, self.labels = [], []

    def synthesise(self):
        rng = np.random.default_rng(5)
        n = self.p["rate"] * self.p["seconds"]
        t = np.arange(n) / self.p["rate"]
        for i in range(self.p["clips"]):
            wave = rng.normal(0, 0.1, n)
            label = i % 2
            if label:
                wave += 0.2 * np.sin(2 * np.pi * (80 + 10 * t) * t)
            path = os.path.join(self.folder, f"clip_{i:05d}.wav")
            data = tf.constant(np.clip(wave, -1, 1)[:, None], tf.float32)
            tf.io.write_file(path, tf.audio.encode_wav(data, self.p["rate"]))
            self.paths.append(path)
            self.labels.append(float(label))
        return self

    def _spectrogram(self, path, label):
        wave, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
        wave = tf.image.random_crop(wave[:, 0], [self.p["crop"] * self.p["rate"]])
        spec = tf.abs(tf.signal.stft(wave, 512, 16, fft_length=1024))
        mel = tf.nn.avg_pool1d(tf.matmul(spec, self.mel)[None], 8, 8, "VALID")[0]
        return tf.math.log(mel + 1e-4)[..., None], label

    def dataset(self):
        self.mel = tf.signal.linear_to_mel_weight_matrix(64, 513, self.p["rate"], 30.0, 1900.0)
        ds = tf.data.Dataset.from_tensor_slices((self.paths, self.labels))
        ds = ds.map(self._spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(self.p["clips"])
        return ds.batch(self.p["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def residual(x, width):
    y = layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
    y = layers.Conv2D(width, 3, padding="same")(y)
    skip = layers.Conv2D(width, 1, strides=2, padding="same")(x)
    return layers.ReLU()(layers.Add()([y, skip]))


def build(shape):
    inputs = keras.Input(shape)
    x = layers.BatchNormalization()(inputs)
    for width in (16, 32, 64, 128):
        x = residual(x, width)
    x = layers.GlobalMaxPooling2D()(x)
    return keras.Model(inputs, layers.Dense(1)(x))


def main():
    with tempfile.TemporaryDirectory() as folder:
        ds = ClipStore(folder, PARAMS).synthesise().dataset()
        model = build(ds.element_spec[0].shape[1:])
        model.compile("adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=[keras.metrics.AUC(from_logits=True)])
        model.fit(ds, epochs=PARAMS["epochs"], verbose=2)


main()
