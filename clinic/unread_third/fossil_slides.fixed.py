import glob
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

AUTOTUNE = tf.data.AUTOTUNE
IMG = 256
CLASSES = ("ammonite", "trilobite", "brachiopod", "coral")


def scan_slides(root, count=8000):
    gen = np.random.default_rng(9)
    for name in CLASSES:
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for i in range(count):
        small = gen.integers(0, 255, (24, 24, 3), dtype=np.uint8)
        big = np.kron(small, np.ones((16, 16, 1), np.uint8))
        out = os.path.join(root, CLASSES[i % 4], f"slide{i}.jpg")
        tf.io.write_file(out, tf.io.encode_jpeg(big))


def parse_path(path):
    folder = tf.strings.split(path, os.sep)[-2]
    label = tf.argmax(tf.cast(tf.equal(folder, list(CLASSES)), tf.int32))
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.random_crop(img, (IMG, IMG, 3))
    return tf.cast(img, tf.float32) / 127.5 - 1.0, label


def training_set(root, batch_size=32):
    files = sorted(glob.glob(os.path.join(root, "*", "*.jpg")))
    ds = tf.data.Dataset.from_tensor_slices(files)
    ds = ds.shuffle(buffer_size=len(files))
    ds = ds.map(parse_path, num_parallel_calls=AUTOTUNE)
    ds = ds.batch(batch_size, drop_remainder=True)
    return ds.prefetch(AUTOTUNE)


def residual(x, filters, stride=1):
    short = x
    if stride != 1 or x.shape[-1] != filters:
        short = layers.Conv2D(filters, 1, strides=stride)(x)
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    return layers.ReLU()(layers.Add()([short, y]))


def classifier():
    inp = layers.Input((IMG, IMG, 3))
    x = layers.Conv2D(32, 7, strides=4, padding="same", activation="relu")(inp)
    x = residual(x, 32)
    x = residual(x, 64, 2)
    x = residual(x, 128, 2)
    x = layers.GlobalAveragePooling2D()(x)
    return models.Model(inp, layers.Dense(len(CLASSES), activation="softmax")(x))


def run():
    with tempfile.TemporaryDirectory() as root:
        scan_slides(root)
        model = classifier()
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy",
                      metrics=["accuracy"])
        model.fit(training_set(root), epochs=6)


if __name__ == "__main__":
    run()
