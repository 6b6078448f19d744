"""Leaf blotch detection, transfer of my Kaggle notebook to a script."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from PIL import Image

SEED = 7
IMG = 64
BATCH = 32
EPOCHS = 9
keras.utils.set_random_seed(SEED)


def write_leaves(folder, n=480):
    rng = np.random.default_rng(SEED)
    base = rng.integers(40, 200, (24, 24, 3)).astype("uint8")
    names, labels = [], []
    for i in range(n):
        label = int(rng.integers(0, 4))
        img = Image.fromarray(np.roll(base, i, axis=0)).resize((256, 256), Image.BICUBIC)
        arr = np.array(img)
        for _ in range(label * 3):
            r, c = rng.integers(0, 230, 2)
            arr[r:r + 20, c:c + 20] = (120, 70, 20)
        path = os.path.join(folder, f"leaf_{i:04d}.jpg")
        Image.fromarray(arr).save(path, quality=88)
        names.append(path)
        labels.append(label)
    return names, labels


def load_leaf(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.random_crop(img, (208, 208, 3))
    img = tf.image.random_flip_left_right(img)
    img = tf.image.convert_image_dtype(img, tf.float32)
    img = tf.image.random_hue(img, 0.05)
    img = tf.image.random_saturation(img, 0.7, 1.3)
    img = tf.image.resize(img, (IMG, IMG))
    return img, label


def get_dataset(paths, labels, training=True):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    if training:
        ds = ds.shuffle(len(paths))
    ds = ds.map(load_leaf)
    ds = ds.batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    inp = layers.Input((IMG, IMG, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inp)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inp, layers.Dense(4, activation="softmax")(x))


with tempfile.TemporaryDirectory() as folder:
    paths, labels = write_leaves(folder)
    train = get_dataset(paths, labels)
    model = build()
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    hist = model.fit(train, epochs=EPOCHS, verbose=2)
    took = time.time() - t0
print("best accuracy", max(hist.history["accuracy"]))
print("WORK", EPOCHS * len(paths))
print("TRAIN_SECONDS %.2f" % took)
