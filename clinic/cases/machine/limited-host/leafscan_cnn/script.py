"""Leaf disease classifier. Started by launch.sh once per node with LOCAL_RANK set; alone it runs as rank 0."""
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

RANK = int(os.environ.get("LOCAL_RANK", 0))
WORLD = int(os.environ.get("WORLD_SIZE", 1))


def setup(rank):
    keras.utils.set_random_seed(17 + rank)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    tf.get_logger().setLevel("ERROR")
    if rank == 0:
        print("world size", WORLD)


def leaves(n, size=48, classes=6):
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, n)
    x = rng.normal(0.4, 0.1, (n, size, size, 3)).astype("float32")
    for i, c in enumerate(y):
        x[i, 6 * c: 6 * c + 8, :, c % 3] += 0.4
    return x, y.astype("int32")


def block(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    if x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1)(x)
    return layers.MaxPooling2D()(layers.ReLU()(layers.add([x, y])))


def build(size=48):
    inp = keras.Input((size, size, 3))
    x = inp
    for f in (24, 48, 64):
        x = block(x, f)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(6)(x))


setup(RANK)
x, y = leaves(1024)
x, y = x[RANK::WORLD], y[RANK::WORLD]
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024).batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = build()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(ds, epochs=3, verbose=2)
