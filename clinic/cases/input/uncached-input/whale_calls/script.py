"""Whale-call detector: hydrophone recordings in TFRecord shards -> mel patches -> small convnet.  Synthetic recordings."""
import argparse
import csv
import logging
import math
import os
import tempfile
import time
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

log = logging.getLogger("whales")


@dataclass
class AudioConfig:
    rate: int = 8000
    seconds: float = 2.0
    frame: int = 512
    hop: int = 128
    mels: int = 40
    fmin: float = 40.0
    fmax: float = 3600.0

    @property
    def samples(self):
        return int(self.rate * self.seconds)

    @property
    def frames(self):
        return 1 + (self.samples - self.frame) // self.hop


@dataclass
class TrainConfig:
    clips: int = 1152
    val_clips: int = 96
    shards: int = 4
    batch: int = 64
    epochs: int = 6
    base_lr: float = 2e-3
    folder: str = ""
    audio: AudioConfig = field(default_factory=AudioConfig)


# ------------------------------------------------------------------ recordings
class Hydrophone:
    """Draws clips with or without an upsweep call in ship noise."""

    def __init__(self, audio: AudioConfig, seed: int):
        self.audio = audio
        self.g = np.random.default_rng(seed)
        self.t = np.arange(audio.samples) / audio.rate

    def clip(self):
        has_call = int(self.g.random() < 0.5)
        noise = self.g.normal(0, 0.08, self.audio.samples)
        hum = 0.1 * np.sin(2 * np.pi * self.g.uniform(50, 120) * self.t)
        out = noise + hum
        if has_call:
            f0, f1 = self.g.uniform(100, 300), self.g.uniform(600, 1500)
            start = self.g.uniform(0, 1.0)
            local = np.clip((self.t - start) / 0.8, 0, 1)
            sweep = np.sin(2 * np.pi * (f0 * local + 0.5 * (f1 - f0) * local ** 2) * 0.8)
            out += 0.25 * sweep * np.sin(np.pi * local)
        return (np.clip(out, -1, 1) * 32767).astype(np.int16), has_call


def write_shards(cfg: TrainConfig, split: str, count: int, seed: int):
    phone = Hydrophone(cfg.audio, seed)
    paths = []
    for s in range(cfg.shards):
        path = os.path.join(cfg.folder, f"{split}-{s:02d}.tfrecord")
        with tf.io.TFRecordWriter(path) as w:
            for _ in range(count // cfg.shards):
                pcm, label = phone.clip()
                feature = {
                    "pcm": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pcm.tobytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                w.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        paths.append(path)
    return paths


# ------------------------------------------------------------------ features
class MelFrontend:
    def __init__(self, audio: AudioConfig):
        self.audio = audio
        self.matrix = tf.signal.linear_to_mel_weight_matrix(
            audio.mels, audio.frame // 2 + 1, audio.rate, audio.fmin, audio.fmax)

    def parse(self, record):
        f = tf.io.parse_single_example(record, {
            "pcm": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        wave = tf.cast(tf.io.decode_raw(f["pcm"], tf.int16), tf.float32) / 32768.0
        return tf.ensure_shape(wave, [self.audio.samples]), tf.cast(f["label"], tf.float32)

    def mel(self, wave, label):
        spec = tf.abs(tf.signal.stft(wave, self.audio.frame, self.audio.hop))
        mel = tf.math.log(tf.matmul(spec, self.matrix) + 1e-4)
        # per-channel energy normalisation over a sliding window
        padded = tf.pad(mel, [[12, 12], [0, 0]], mode="REFLECT")
        smooth = tf.reduce_mean(tf.signal.frame(padded, 25, 1, axis=0), axis=1)
        return ((mel - smooth) / 2.0)[..., None], label[None]


class Corpus:
    """Everything that happens between the shards and the model."""

    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.frontend = MelFrontend(cfg.audio)
        self.files = {
            "train": write_shards(cfg, "train", cfg.clips, 1),
            "val": write_shards(cfg, "val", cfg.val_clips, 2),
        }

    def _features(self, split):
        ds = tf.data.TFRecordDataset(self.files[split], num_parallel_reads=2)
        ds = ds.map(self.frontend.parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.map(self.frontend.mel, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.cache()

    def train(self, epoch):
        ds = self._features("train")
        ds = ds.shuffle(self.cfg.clips, seed=100 + epoch)
        return ds.batch(self.cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    def val(self):
        return self._features("val").batch(self.cfg.batch).prefetch(tf.data.AUTOTUNE)


# ------------------------------------------------------------------ model and training
def detector(audio: AudioConfig):
    inp = keras.Input((audio.frames, audio.mels, 1))
    x = keras.layers.Conv2D(8, (7, 5), strides=(4, 2), activation="relu")(inp)
    x = keras.layers.SeparableConv2D(16, 3, strides=2, activation="relu")(x)
    x = keras.layers.GlobalMaxPooling2D()(x)
    x = keras.layers.Dense(16, activation="relu")(x)
    return keras.Model(inp, keras.layers.Dense(1)(x), name="detector")


class History:
    def __init__(self, folder):
        self.path = os.path.join(folder, "history.csv")
        with open(self.path, "w", newline="") as f:
            csv.writer(f).writerow(["epoch", "loss", "val_loss", "val_auc"])

    def add(self, *row):
        with open(self.path, "a", newline="") as f:
            csv.writer(f).writerow(row)


class Experiment:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.corpus = Corpus(cfg)
        self.model = detector(cfg.audio)
        self.model.compile(
            optimizer=keras.optimizers.Adam(cfg.base_lr),
            loss=keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=[keras.metrics.AUC(from_logits=True, name="auc")],
        )
        self.history = History(cfg.folder)
        self.best = -1.0

    def lr(self, epoch):
        return self.cfg.base_lr * 0.5 * (1 + math.cos(math.pi * epoch / self.cfg.epochs))

    def run(self):
        val = self.corpus.val()
        for epoch in range(self.cfg.epochs):
            self.model.optimizer.learning_rate = self.lr(epoch)
            t0 = time.perf_counter()
            h = self.model.fit(self.corpus.train(epoch), verbose=0).history
            seconds = time.perf_counter() - t0
            scores = self.model.evaluate(val, verbose=0, return_dict=True)
            self.history.add(epoch, h["loss"][0], scores["loss"], scores["auc"])
            if scores["auc"] > self.best:
                self.best = scores["auc"]
                self.model.save_weights(os.path.join(self.cfg.folder, "best.weights.h5"))
            log.info("epoch %d loss %.4f val %.4f auc %.3f (%.2f s)", epoch, h["loss"][0],
                     scores["loss"], scores["auc"], seconds)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--folder", default=None)
    a = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    folder = a.folder or tempfile.mkdtemp(prefix="whales_")
    Experiment(TrainConfig(epochs=a.epochs, folder=folder)).run()


if __name__ == "__main__":
    main()
