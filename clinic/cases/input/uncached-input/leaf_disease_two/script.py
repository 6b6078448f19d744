"""Leaf disease from photos in class folders."""
import pathlib
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

AUTOTUNE = tf.data.AUTOTUNE
SIDE = 40
CLASSES = ["healthy", "rust", "scab"]


def write_photos(root, per_class=130):
    rng = np.random.default_rng(0)
    for c, name in enumerate(CLASSES):
        folder = root / name
        folder.mkdir()
        for i in range(per_class):
            low = rng.integers(0, 255, (40, 52, 3))
            low[..., c] = np.minimum(255, low[..., c] + 60)
            img = np.kron(low, np.ones((12, 12, 1))).astype(np.uint8)
            tf.io.write_file(str(folder / f"{i:04d}.jpg"), tf.io.encode_jpeg(img, quality=85))


def list_photos(root):
    files, labels = [], []
    for c, name in enumerate(CLASSES):
        found = sorted(str(p) for p in (root / name).glob("*.jpg"))
        files += found
        labels += [c] * len(found)
    order = np.random.default_rng(1).permutation(len(files))
    return np.array(files)[order], np.array(labels, np.int32)[order]


def load(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.resize(img, [SIDE, SIDE], method="area") / 255.0
    return img, label


def pipeline(files, labels, batch, training):
    ds = tf.data.Dataset.from_tensor_slices((files, labels))
    ds = ds.map(load, num_parallel_calls=AUTOTUNE)
    if training:
        ds = ds.shuffle(256, seed=3)
    return ds.batch(batch).prefetch(AUTOTUNE)


def classifier():
    return tf.keras.Sequential([
        layers.Input((SIDE, SIDE, 3)),
        layers.RandomFlip(),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(len(CLASSES)),
    ])


def main(epochs=14):
    tf.keras.utils.set_random_seed(3)
    root = pathlib.Path(tempfile.mkdtemp(prefix="leaves"))
    try:
        write_photos(root)
        files, labels = list_photos(root)
        cut = int(len(files) * 0.85)
        train = pipeline(files[:cut], labels[:cut], 32, True)
        val = pipeline(files[cut:], labels[cut:], 64, False)
        model = classifier()
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        t0 = time.time()
        model.fit(train, epochs=epochs, verbose=2)
        seconds = time.time() - t0
        print("val", model.evaluate(val, verbose=0))
        print("WORK", cut * epochs)
        print("TRAIN_SECONDS %.2f" % seconds)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
