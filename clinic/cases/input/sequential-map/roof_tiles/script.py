"""Roof material from aerial JPEG tiles."""
import io
import time

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

RAW = 288
NET = 32
MATERIALS = ["clay", "slate", "metal", "bitumen"]


def jpeg_tile(rng, kind):
    base = np.zeros((RAW, RAW, 3), "float32") + np.array([150, 60 + 40 * kind, 50 + 30 * kind])
    stripes = 25 * np.sin(np.arange(RAW) / (3 + 2 * kind))[:, None, None]
    img = np.clip(base + stripes + rng.normal(0, 12, (RAW, RAW, 1)), 0, 255).astype("uint8")
    buf = io.BytesIO()
    Image.fromarray(img).save(buf, "JPEG", quality=88)
    return buf.getvalue()


def load_catalogue(n_unique=120, n=1600):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, len(MATERIALS), n_unique)
    blobs = [jpeg_tile(rng, k) for k in kinds]
    pick = rng.integers(0, n_unique, n)
    return [blobs[i] for i in pick], kinds[pick].astype("int32")


def decode(blob, label):
    img = tf.io.decode_jpeg(blob, channels=3)
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_crop(img, (256, 256, 3))
    img = tf.image.resize(tf.cast(img, tf.float32), (NET, NET), method="area")
    return img / 255.0, label


def tiles(blobs, labels, batch):
    ds = tf.data.Dataset.from_tensor_slices((blobs, labels))
    ds = ds.shuffle(len(blobs))
    ds = ds.map(decode)
    ds = ds.batch(batch)
    ds = ds.prefetch(2)
    return ds


def roof_model():
    i = keras.Input((NET, NET, 3))
    x = keras.layers.Conv2D(16, 3, strides=2, activation="relu")(i)
    x = keras.layers.Conv2D(24, 3, strides=2, activation="relu")(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(i, keras.layers.Dense(len(MATERIALS))(x))


def main(epochs=4, batch=32):
    blobs, labels = load_catalogue()
    m = roof_model()
    m.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    t = time.perf_counter()
    m.fit(tiles(blobs, labels, batch), epochs=epochs, verbose=2)
    t = time.perf_counter() - t
    print("WORK", len(blobs) * epochs)
    print("TRAIN_SECONDS %.2f" % t)


main()
