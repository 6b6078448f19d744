"""Bird call tagging from long field recordings stored as int16 PCM in TFRecords."""
import dataclasses
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
import keras


@dataclasses.dataclass
class Cfg:
    shards: int = 6
    clips: int = 80
    samples: int = 48000
    batch: int = 12
    epochs: int = 3
    mels: int = 40


cfg = Cfg()
tmp = pathlib.Path(tempfile.mkdtemp(prefix="calls_"))
rng = np.random.default_rng(11)
MEL = tf.signal.linear_to_mel_weight_matrix(cfg.mels, 513, 16000, 80.0, 7600.0)


def bytes_feature(b):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[b]))


def record():
    t = np.arange(cfg.samples) / 16000
    for s in range(cfg.shards):
        with tf.io.TFRecordWriter(str(tmp / f"night{s}.tfrecord")) as w:
            for _ in range(cfg.clips):
                y = int(rng.integers(0, 5))
                wav = np.sin(2 * np.pi * (400 + 500 * y) * t) + rng.normal(0, 0.7, t.size)
                ex = tf.train.Example(features=tf.train.Features(feature={
                    "pcm": bytes_feature((wav * 8000).astype("<i2").tobytes()),
                    "species": tf.train.Feature(int64_list=tf.train.Int64List(value=[y]))}))
                w.write(ex.SerializeToString())


def to_logmel(raw):
    ex = tf.io.parse_single_example(raw, {"pcm": tf.io.FixedLenFeature([], tf.string),
                                          "species": tf.io.FixedLenFeature([], tf.int64)})
    wav = tf.cast(tf.io.decode_raw(ex["pcm"], tf.int16), tf.float32) / 32768.0
    spec = tf.abs(tf.signal.stft(wav, 1024, 128, 1024))
    return tf.math.log(tf.matmul(spec, MEL) + 1e-5), ex["species"]


def night(path):
    return tf.data.TFRecordDataset(path).map(to_logmel)


def load():
    files = tf.data.Dataset.list_files(str(tmp / "night*.tfrecord"), seed=1)
    ds = files.interleave(night, cycle_length=3, block_length=4)
    return ds.shuffle(64).batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Tagger(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [keras.layers.Conv1D(32, 5, strides=4, activation="relu"),
                     keras.layers.Conv1D(32, 5, strides=4, activation="relu"),
                     keras.layers.GlobalMaxPooling1D()]
        self.head = keras.layers.Dense(5)

    def call(self, x, training=False):
        for layer in self.body:
            x = layer(x)
        return self.head(x)


record()
net = Tagger()
net.compile(optimizer=keras.optimizers.Adam(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
net.fit(load(), epochs=cfg.epochs, verbose=2)
