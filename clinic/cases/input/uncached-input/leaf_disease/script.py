"""Leaf disease from phone photographs; the archive is on disk as JPEG, the network sees 64x64."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import pathlib, tempfile
import numpy as np
import tensorflow as tf

SIDE, CLASSES, N = 64, 5, 256


def take_photographs(root):
    rng = np.random.default_rng(5)
    yy, xx = np.mgrid[0:300, 0:400]
    names, labels = [], []
    for i in range(N):
        k = i % CLASSES
        base = 110 + 60 * np.sin(xx / (9.0 + 6 * k)) * np.cos(yy / (11.0 + 3 * k))
        img = np.clip(base[..., None] + rng.normal(0, 12, (300, 400, 3)), 0, 255).astype(np.uint8)
        p = root / f"{i:04d}.jpg"
        p.write_bytes(tf.io.encode_jpeg(img, quality=90).numpy())
        names.append(str(p)); labels.append(k)
    return names, labels


def load(name, y):
    return tf.io.read_file(name), y


def decode(raw, y):
    img = tf.io.decode_jpeg(raw, channels=3)
    img = tf.image.resize(img, (SIDE, SIDE), antialias=True)
    return tf.image.per_image_standardization(img), y


def flip(img, y):
    return tf.image.random_flip_left_right(img), y


def dataset(names, labels):
    auto = tf.data.AUTOTUNE
    ds = tf.data.Dataset.from_tensor_slices((names, labels))
    ds = ds.map(load, num_parallel_calls=auto).cache()
    ds = ds.map(decode, num_parallel_calls=auto)
    ds = ds.shuffle(N)
    ds = ds.map(flip, num_parallel_calls=auto)
    return ds.batch(32).prefetch(auto)


def network():
    k = tf.keras
    x = inp = k.Input((SIDE, SIDE, 3))
    for f in (8, 16, 16):
        x = k.layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    x = k.layers.GlobalAveragePooling2D()(x)
    return k.Model(inp, k.layers.Dense(CLASSES)(x))


with tempfile.TemporaryDirectory() as d:
    ds = dataset(*take_photographs(pathlib.Path(d)))
    model = network()
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    hist = model.fit(ds, epochs=12, verbose=2)
print("final", hist.history["loss"][-1])
