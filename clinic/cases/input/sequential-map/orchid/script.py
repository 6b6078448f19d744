"""Orchid genus classifier; herbarium scans are kept as JPEG strings in memory."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

SIDE, GENERA, SEED = 32, 6, 4


def scans(n):
    r = np.random.default_rng(SEED)
    labels = r.integers(0, GENERA, n)
    y, x = np.mgrid[0:320, 0:320] / 320
    out = []
    for k in labels:
        a, b = r.uniform(2, 4, 2) + k
        img = np.stack([np.sin(a * x * 6 + y), np.cos(b * y * 6), np.sin(a * b * x * y)], -1)
        img = 128 + 60 * img + r.normal(0, 12, img.shape)
        out.append(tf.io.encode_jpeg(img.clip(0, 255).astype("uint8"), quality=90).numpy())
    return out, labels.astype("int32")


def window(data, label):
    corner = tf.random.uniform([2], 0, 320 - 256, tf.int32)
    box = tf.concat([corner, [256, 256]], 0)
    return tf.image.decode_and_crop_jpeg(data, box, channels=3), label


def mirror(img, label):
    return tf.image.random_flip_left_right(img), label


def shrink(img, label):
    return tf.image.resize(img, [SIDE, SIDE], method="nearest"), label


def scale(img, label):
    return tf.cast(img, tf.float32) / 255.0, label


def chain(ds, *stages):
    for stage in stages:
        ds = ds.map(stage)
    return ds


def pipeline(data, labels, batch=32):
    ds = tf.data.Dataset.from_tensor_slices((data, labels))
    ds = ds.shuffle(len(labels), seed=SEED).repeat()
    ds = chain(ds, window, mirror, shrink, scale)
    return ds.batch(batch, drop_remainder=True).prefetch(2)


tf.random.set_seed(SEED)
data, labels = scans(200)
model = keras.Sequential(
    [
        keras.layers.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(8, 4, strides=4, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(GENERA, activation="softmax"),
    ]
)
model.compile("rmsprop", "sparse_categorical_crossentropy")
log = model.fit(pipeline(data, labels), steps_per_epoch=70, epochs=3, verbose=2)
print("loss", log.history["loss"][-1])
