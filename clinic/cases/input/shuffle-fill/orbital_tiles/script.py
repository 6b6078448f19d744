"""Land use from satellite tiles. Each "epoch" is a short random draw from the tile archive, as in the paper."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras
from keras import layers

TILES, SIDE, LAND = 2000, 96, 6
BATCH, DRAW = 16, 12


def tile_archive():
    rng = np.random.default_rng(6)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    kinds = rng.integers(0, LAND, TILES)
    png = []
    for k in kinds:
        a = 120 + 80 * np.sin(xx / (2 + k)) * np.sin(yy / (3 + k)) + rng.normal(0, 10, (SIDE, SIDE))
        a = np.clip(np.stack([a, a * 0.8, 255 - a], -1), 0, 255).astype(np.uint8)
        png.append(tf.io.encode_png(a).numpy())
    return np.array(png), kinds.astype("int32")


def to_reflectance(png, kind):
    img = tf.cast(tf.io.decode_png(png, channels=3), tf.float32) / 255.0
    img = tf.image.random_brightness(tf.ensure_shape(img, (SIDE, SIDE, 3)), 0.1)
    return img, kind


def sample(png, kinds):
    ds = tf.data.Dataset.from_tensor_slices((png, kinds))
    ds = ds.map(to_reflectance, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(TILES)
    return ds.batch(BATCH).take(DRAW).prefetch(2)


net = keras.Sequential([
    layers.Input((SIDE, SIDE, 3)),
    layers.Conv2D(16, 5, strides=3, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(LAND, activation="softmax"),
])
net.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(sample(*tile_archive()), epochs=8, verbose=2)
