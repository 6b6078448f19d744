"""Leaf disease classifier, scans read from class folders."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
root = pathlib.Path(tempfile.mkdtemp(prefix="leaf_"))
CLASSES = ["blight", "healthy", "mildew", "rust"]

for k, name in enumerate(CLASSES):
    (root / name).mkdir()
    for i in range(90):
        small = rng.integers(0, 256, (24, 24, 3))
        scan = np.kron(small, np.ones((14, 14, 1)))
        scan[..., k % 3] = (scan[..., k % 3] + 60 * k) % 256
        (root / name / f"{i:03d}.jpg").write_bytes(tf.io.encode_jpeg(scan.astype("uint8")).numpy())

paths = sorted(str(p) for p in root.glob("*/*.jpg"))
labels = [CLASSES.index(pathlib.Path(p).parent.name) for p in paths]


def load_scan(path, label):
    raw = tf.io.read_file(path)
    img = tf.image.decode_jpeg(raw, channels=3)
    img = tf.image.resize(img, (224, 224), method="lanczos3", antialias=True)
    img = tf.image.random_flip_left_right(img)
    img = tf.image.resize(img, (64, 64), antialias=True)
    return img / 255.0, label


def make(paths, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    if training:
        ds = ds.shuffle(len(paths), seed=1).repeat()
    ds = ds.map(load_scan)
    return ds.batch(16).prefetch(2)


train = make(paths, labels, training=True)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(len(CLASSES)),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, steps_per_epoch=25, epochs=4, verbose=2)
