"""Cough screening: log-mel pictures of short phone recordings, small CNN."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    clips: int = 400
    rate: int = 16000
    seconds: float = 3.0
    frame: int = 400
    hop: int = 160
    fft: int = 512
    mels: int = 40
    batch: int = 32
    epochs: int = 20


def record_coughs(cfg, seed=0):
    rng = np.random.default_rng(seed)
    n = int(cfg.rate * cfg.seconds)
    sick = rng.integers(0, 2, cfg.clips)
    t = np.arange(n, dtype="float32") / cfg.rate
    out = np.empty((cfg.clips, n), "int16")
    for k in range(cfg.clips):
        onset = rng.uniform(0.2, 1.5)
        envelope = np.exp(-np.abs(t - onset) * (6 if sick[k] else 11))
        wheeze = np.sin(2 * np.pi * (450 if sick[k] else 300) * t)
        noise = rng.standard_normal(n, dtype="float32")
        out[k] = (envelope * (0.5 * wheeze + noise) * 5000).clip(-32000, 32000)
    return out, sick.astype("float32")


class Frontend:
    def __init__(self, cfg):
        self.cfg = cfg
        self.mel = tf.signal.linear_to_mel_weight_matrix(
            cfg.mels, cfg.fft // 2 + 1, cfg.rate, 60.0, 7600.0)

    def __call__(self, pcm, label):
        wave = tf.cast(pcm, tf.float32) / 32768.0
        spec = tf.signal.stft(wave, self.cfg.frame, self.cfg.hop, self.cfg.fft)
        power = tf.square(tf.abs(spec))
        logmel = tf.math.log(tf.matmul(power, self.mel) + 1e-6)
        logmel = (logmel - tf.reduce_mean(logmel)) / (tf.math.reduce_std(logmel) + 1e-6)
        return logmel[..., None], label


def make_dataset(pcm, sick, cfg):
    ds = tf.data.Dataset.from_tensor_slices((pcm, sick))
    ds = ds.map(Frontend(cfg), num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(cfg.clips, reshuffle_each_iteration=True, seed=5)
    ds = ds.batch(cfg.batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def cnn(cfg, frames):
    inp = layers.Input((frames, cfg.mels, 1))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inp)
    x = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(24, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))


def main():
    cfg = Config()
    keras.utils.set_random_seed(1)
    pcm, sick = record_coughs(cfg)
    frames = 1 + (pcm.shape[1] - cfg.frame) // cfg.hop
    ds = make_dataset(pcm, sick, cfg)
    model = cnn(cfg, frames)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    begin = time.perf_counter()
    model.fit(ds, epochs=cfg.epochs, verbose=2)
    spent = time.perf_counter() - begin
    print("WORK", cfg.epochs * (cfg.clips // cfg.batch) * cfg.batch)
    print("TRAIN_SECONDS %.3f" % spent)


if __name__ == "__main__":
    main()
