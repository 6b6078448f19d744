"""Denoising diffusion on 16x16 textures; images stored as TFRecord shards, decoded once and kept in memory."""
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE, T = 16, 200
ALPHA = np.cumprod(1 - np.linspace(1e-4, 0.05, T)).astype("float32")


def write_shards(root, shards=4, each=400):
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:SIDE, :SIDE]
    for s in range(shards):
        with tf.io.TFRecordWriter(str(root / f"tex-{s}.tfrecord")) as w:
            for _ in range(each):
                a, b, c = rng.uniform(0.2, 1.5, 3)
                img = np.stack([np.sin(a * xx + c), np.cos(b * yy), np.sin(a * xx + b * yy)], -1)
                png = tf.io.encode_png(((img + 1) * 127.5).astype("uint8")).numpy()
                f = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png]))}
                w.write(tf.train.Example(features=tf.train.Features(feature=f)).SerializeToString())


def decode(rec):
    png = tf.io.parse_single_example(rec, {"image": tf.io.FixedLenFeature((), tf.string)})["image"]
    return tf.ensure_shape(tf.io.decode_png(png, 3), (SIDE, SIDE, 3))


def dataset(root, batch):
    ds = tf.data.TFRecordDataset(sorted(map(str, root.glob("*.tfrecord"))), num_parallel_reads=2)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(1600).repeat().batch(batch)
    return ds.map(lambda x: tf.cast(x, tf.float32) / 127.5 - 1.0, num_parallel_calls=2).prefetch(2)


def unet():
    x = keras.Input((SIDE, SIDE, 3))
    t = keras.Input((1,))
    e = layers.Dense(64, activation="swish")(t)
    h = layers.Conv2D(64, 3, padding="same", activation="swish")(x)
    skip = h
    h = layers.Conv2D(96, 3, strides=2, padding="same", activation="swish")(h)
    h = h + layers.Dense(96)(e)[:, None, None, :]
    h = layers.Conv2D(96, 3, padding="same", activation="swish")(h)
    h = layers.Conv2D(64, 3, padding="same", activation="swish")(layers.UpSampling2D()(h))
    h = layers.Conv2D(64, 3, padding="same", activation="swish")(layers.Concatenate()([h, skip]))
    return keras.Model([x, t], layers.Conv2D(3, 3, padding="same")(h))


class Diffusion(keras.Model):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.alpha = tf.constant(ALPHA)
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, x):
        n = tf.shape(x)[0]
        t = tf.random.uniform((n,), 0, T, tf.int32)
        a = tf.gather(self.alpha, t)[:, None, None, None]
        eps = tf.random.normal(tf.shape(x))
        with tf.GradientTape() as tape:
            guess = self.net([tf.sqrt(a) * x + tf.sqrt(1 - a) * eps, tf.cast(t, tf.float32)[:, None] / T], training=True)
            loss = tf.reduce_mean(tf.square(guess - eps))
        w = self.net.trainable_weights
        self.optimizer.apply(tape.gradient(loss, w), w)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        write_shards(root)
        model = Diffusion(unet())
        model.compile(optimizer=keras.optimizers.Adam(1e-3))
        t0 = time.perf_counter()
        model.fit(dataset(root, 32), steps_per_epoch=35, epochs=2, verbose=2)
        print(f"{time.perf_counter() - t0:.1f}s")
