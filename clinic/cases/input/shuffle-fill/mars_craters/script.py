"""Crater / no crater from small orbital tiles. An epoch is a random sample of the archive."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow.keras import Model, layers

TILE = 96
ARCHIVE = 1500
PER_EPOCH = 320
BATCH = 32
EPOCHS = 9


def build_archive(root):
    rng = np.random.default_rng(4)
    yy, xx = np.mgrid[:TILE, :TILE]
    noise = rng.integers(90, 140, (40, TILE, TILE), dtype=np.uint8)
    for i in range(ARCHIVE):
        img = noise[i % 40].copy()
        crater = i % 2
        if crater:
            cy, cx = rng.integers(20, TILE - 20, 2)
            ring = np.abs(np.hypot(yy - cy, xx - cx) - rng.integers(6, 18)) < 2
            img[ring] = 230
        Image.fromarray(img).save(os.path.join(root, f"{crater}_{i}.png"), compress_level=1)


class CraterModel(Model):
    def __init__(self):
        super().__init__()
        self.convs = [layers.Conv2D(f, 3, strides=2, activation="relu") for f in (12, 24, 32)]
        self.pool = layers.GlobalMaxPooling2D()
        self.out = layers.Dense(1)

    def call(self, x):
        for conv in self.convs:
            x = conv(x)
        return self.out(self.pool(x))


def decode(path, label):
    img = tf.io.decode_png(tf.io.read_file(path), channels=1)
    img = tf.cast(img, tf.float32) / 255.0
    small = tf.image.resize(img, (TILE // 2, TILE // 2), antialias=True)
    back = tf.image.resize(small, (TILE, TILE), method="bicubic")
    return tf.concat([img, img - back], axis=-1), label


def sampled_dataset(root):
    names = sorted(os.listdir(root))
    paths = [os.path.join(root, n) for n in names]
    labels = [float(n[0]) for n in names]
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(ARCHIVE).take(PER_EPOCH)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def main():
    tf.random.set_seed(0)
    with tempfile.TemporaryDirectory() as root:
        build_archive(root)
        model = CraterModel()
        model.compile("nadam", tf.keras.losses.BinaryCrossentropy(from_logits=True))
        start = time.time()
        model.fit(sampled_dataset(root), epochs=EPOCHS, verbose=2)
        total = time.time() - start
    print("WORK", PER_EPOCH * EPOCHS)
    print("TRAIN_SECONDS %.2f" % total)


main()
