"""Water-stress regression from thermal leaf images kept as PNG in a TFRecord file."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SIDE, SMALL = 192, 48


def write_records(path, n=700):
    rng = np.random.default_rng(3)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    with tf.io.TFRecordWriter(path) as out:
        for _ in range(n):
            stress = rng.random()
            leaf = 90 + 110 * stress * np.exp(-((xx - 0.5) ** 2 + (yy - 0.5) ** 2) * 6)
            img = np.clip(leaf + rng.normal(0, 4, leaf.shape), 0, 255).astype(np.uint8)
            png = tf.io.encode_png(img[..., None], compression=1).numpy()
            feature = {"png": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
                       "stress": tf.train.Feature(float_list=tf.train.FloatList(value=[stress]))}
            out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(record):
    ex = tf.io.parse_single_example(record, {"png": tf.io.FixedLenFeature([], tf.string),
                                             "stress": tf.io.FixedLenFeature([], tf.float32)})
    img = tf.cast(tf.io.decode_png(ex["png"], channels=1), tf.float32)
    img = tf.image.resize(img, (SMALL, SMALL), antialias=True)
    img = tf.ensure_shape(tf.image.per_image_standardization(img), (SMALL, SMALL, 1))
    return img, ex["stress"]


def load(path, batch):
    ds = tf.data.TFRecordDataset(path)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.shuffle(700).batch(batch).prefetch(tf.data.AUTOTUNE)


class StressNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.features = tf.keras.Sequential([
            layers.Conv2D(8, 5, strides=2, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(16, 3, activation="relu"),
            layers.GlobalAveragePooling2D()])
        self.dropout = layers.Dropout(0.1)
        self.out = layers.Dense(1, activation="sigmoid")

    def call(self, x, training=False):
        return self.out(self.dropout(self.features(x), training=training))[:, 0]


def fit(model, ds, epochs):
    opt = tf.keras.optimizers.Adam(2e-3)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - model(x, training=True)))
        g = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(g, model.trainable_variables))
        return loss

    n = 0
    for epoch in range(epochs):
        losses = []
        for x, y in ds:
            losses.append(step(x, y))
            n += int(x.shape[0])
        print(f"epoch {epoch:2d} mse {np.mean([l.numpy() for l in losses]):.4f}")
    return n


if __name__ == "__main__":
    path = os.path.join(tempfile.mkdtemp(), "leaves.tfrecord")
    write_records(path)
    ds = load(path, 50)
    t0 = time.perf_counter()
    n = fit(StressNet(), ds, epochs=14)
    print("WORK", n)
    print("TRAIN_SECONDS", time.perf_counter() - t0)
