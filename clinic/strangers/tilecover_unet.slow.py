"""Land-cover segmentation of PNG tiles with a very small U-Net."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, Model

RAW, SIZE, CLASSES = 320, 64, 4
AUTO = tf.data.AUTOTUNE


def export_tiles(root, n=192):
    rng = np.random.default_rng(8)
    for i in range(n):
        coarse = rng.integers(0, CLASSES, (10, 10))
        mask = np.kron(coarse, np.ones((RAW // 10, RAW // 10), int))
        image = np.clip(mask[..., None] * 55 + 20 + rng.normal(0, 14, (RAW, RAW, 3)), 0, 255)
        tf.io.write_file(str(root / f"img_{i:04d}.png"), tf.io.encode_png(image.astype("uint8")))
        tf.io.write_file(str(root / f"msk_{i:04d}.png"), tf.io.encode_png(mask[..., None].astype("uint8")))


def load(image_path, mask_path):
    image = tf.io.decode_png(tf.io.read_file(image_path), 3)
    mask = tf.io.decode_png(tf.io.read_file(mask_path), 1)
    image = tf.image.resize(image, (SIZE, SIZE), method="area") / 255.0
    mask = tf.image.resize(mask, (SIZE, SIZE), method="nearest")
    return image, tf.cast(mask, tf.int32)


def tiles(root):
    images = sorted(str(p) for p in root.glob("img_*.png"))
    masks = sorted(str(p) for p in root.glob("msk_*.png"))
    ds = tf.data.Dataset.from_tensor_slices((images, masks))
    ds = ds.cache()
    ds = ds.map(load, num_parallel_calls=AUTO)
    ds = ds.shuffle(64)
    return ds.batch(16).prefetch(AUTO)


def unet():
    x = layers.Input((SIZE, SIZE, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(b)
    d = layers.Conv2DTranspose(16, 2, strides=2, activation="relu")(c)
    d = layers.Concatenate()([d, b])
    e = layers.Conv2DTranspose(8, 2, strides=2, activation="relu")(d)
    e = layers.Concatenate()([e, a])
    return Model(x, layers.Conv2D(CLASSES, 1, activation="softmax")(e))


with tempfile.TemporaryDirectory() as tmp:
    root = pathlib.Path(tmp)
    export_tiles(root)
    net = unet()
    net.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    net.fit(tiles(root), epochs=14, verbose=2)
