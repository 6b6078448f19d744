"""Contrastive embedding of handwritten-like glyphs; an `epoch` is a fixed number of steps so that
learning-rate steps come at the same places whatever the collection's size."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIDE, CLASSES = 40, 50
PER_SHARD, SHARDS = 1500, 4
BATCH, EPOCH_STEPS, EPOCHS = 32, 20, 14


def draw(folder):
    rng = np.random.default_rng(6)
    protos = rng.random((CLASSES, 10, 10)) > 0.6
    for s in range(SHARDS):
        with tf.io.TFRecordWriter(os.path.join(folder, f"glyphs{s}.rec")) as w:
            for _ in range(PER_SHARD):
                k = int(rng.integers(CLASSES))
                img = np.kron(protos[k], np.ones((10, 10)))
                img = np.roll(img, rng.integers(-6, 6, 2), (0, 1)) * 200 + rng.integers(0, 40, (100, 100))
                png = tf.io.encode_jpeg(img.astype("uint8")[..., None], quality=80).numpy()
                ex = tf.train.Example(features=tf.train.Features(feature={
                    "png": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
                    "k": tf.train.Feature(int64_list=tf.train.Int64List(value=[k]))}))
                w.write(ex.SerializeToString())


def decode(record):
    f = tf.io.parse_single_example(record, {"png": tf.io.FixedLenFeature([], tf.string),
                                            "k": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.cast(tf.io.decode_jpeg(f["png"], 1), tf.float32) / 255.0
    return tf.image.resize(img, (SIDE, SIDE), antialias=True), f["k"]


def glyphs(folder):
    files = tf.data.Dataset.list_files(os.path.join(folder, "*.rec"))
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(PER_SHARD * SHARDS // 2)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Embedder:
    def __init__(self):
        self.net = keras.Sequential([
            keras.layers.Input((SIDE, SIDE, 1)),
            keras.layers.Conv2D(12, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32),
            keras.layers.UnitNormalization(),
        ])
        self.opt = keras.optimizers.SGD(0.05, momentum=0.9)

    @tf.function
    def step(self, img, k):
        with tf.GradientTape() as tape:
            z = self.net(img, training=True)
            sim = z @ tf.transpose(z) / 0.2 - 1e3 * tf.eye(BATCH)
            same = tf.cast(k[:, None] == k[None], tf.float32) - tf.eye(BATCH)
            logp = tf.nn.log_softmax(sim)
            loss = -tf.reduce_sum(same * logp) / tf.maximum(tf.reduce_sum(same), 1.0)
        self.opt.apply_gradients(zip(tape.gradient(loss, self.net.trainable_variables),
                                     self.net.trainable_variables))
        return loss


with tempfile.TemporaryDirectory() as folder:
    draw(folder)
    data, model = glyphs(folder), Embedder()
    for epoch in range(EPOCHS):
        total = 0.0
        for img, k in data.take(EPOCH_STEPS):
            total += model.step(img, k)
        if epoch == 9:
            model.opt.learning_rate.assign(0.01)
        print(f"epoch {epoch}: {total / EPOCH_STEPS:.3f}")
