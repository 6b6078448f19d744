"""Petal segmentation on synthetic flowers: tiny U-shaped net, tf.data."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 24
BATCH_SIZE = 8


def flowers(n):
    rng = np.random.default_rng(3)
    yy, xx = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    theta, r = np.arctan2(yy, xx), np.hypot(yy, xx)
    k = rng.integers(3, 8, n)[:, None, None]
    mask = r < SIDE / 2 * (0.5 + 0.4 * np.cos(k * theta))
    img = mask[..., None] * rng.random((n, 1, 1, 3)) + 0.3 * rng.random((n, SIDE, SIDE, 3))
    return img.astype("float32"), mask[..., None].astype("float32")


def flip(img, mask):
    both = tf.image.random_flip_left_right(tf.concat([img, mask], -1))
    return both[..., :3], both[..., 3:]


def petal_net():
    inp = keras.Input((SIDE, SIDE, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(inp)
    b = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu")(b)
    out = layers.Conv2D(1, 1, activation="sigmoid")(layers.Concatenate()([a, c]))
    return keras.Model(inp, out)


def make_train(images, masks, batch_size=32):
    ds = tf.data.Dataset.from_tensor_slices((images, masks))
    ds = ds.cache().shuffle(1000).repeat()
    ds = ds.batch(batch_size).map(flip, num_parallel_calls=2)
    return ds.prefetch(tf.data.AUTOTUNE)


def main(epochs=4):
    keras.utils.set_random_seed(3)
    images, masks = flowers(1600)
    n_train = 1536
    train = make_train(images[:n_train], masks[:n_train])
    model = petal_net()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(
        train,
        epochs=epochs,
        steps_per_epoch=n_train // BATCH_SIZE,
        validation_data=(images[n_train:], masks[n_train:]),
        verbose=2,
    )
    secs = time.time() - t0
    print("WORK", epochs * n_train)
    print("TRAIN_SECONDS %.2f" % secs)


main()
