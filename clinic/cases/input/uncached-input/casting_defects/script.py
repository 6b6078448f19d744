"""Find porosity in photographs of cast pump impellers (inspection line, one PNG per part)."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

PHOTO = 512
INPUT = 64
PARTS = 240
BATCH = 16
EPOCHS = 16


def photograph_parts(folder, count, seed=5):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:PHOTO, 0:PHOTO].astype("float32") / PHOTO - 0.5
    disc = 140.0 * np.exp(-((xx**2 + yy**2) * 6.0)) + 40.0
    grain = rng.normal(0, 6.0, (PHOTO + 64, PHOTO + 64)).astype("float32")
    for i in range(count):
        defective = i % 2
        dx, dy = rng.integers(0, 64, 2)
        image = disc + grain[dy : dy + PHOTO, dx : dx + PHOTO]
        if defective:
            for _ in range(rng.integers(2, 6)):
                cx, cy = rng.integers(120, PHOTO - 120, 2)
                r = rng.integers(10, 28)
                image[cy - r : cy + r, cx - r : cx + r] -= 60.0
        pixels = np.clip(image, 0, 255).astype("uint8")[..., None]
        png = tf.io.encode_png(pixels, compression=1).numpy()
        sub = os.path.join(folder, "def_front" if defective else "ok_front")
        os.makedirs(sub, exist_ok=True)
        with open(os.path.join(sub, "cast_%04d.png" % i), "wb") as f:
            f.write(png)


def list_parts(folder):
    paths, labels = [], []
    for label, name in enumerate(["ok_front", "def_front"]):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            paths.append(os.path.join(folder, name, file))
            labels.append(label)
    return paths, np.array(labels, dtype="float32")


def load_part(path, label):
    image = tf.io.decode_png(tf.io.read_file(path), channels=1)
    image = tf.image.resize(image, (INPUT, INPUT), antialias=True)
    image = tf.image.per_image_standardization(image)
    image.set_shape((INPUT, INPUT, 1))
    return image, label


def make_dataset(folder):
    paths, labels = list_parts(folder)
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.shuffle(len(paths), seed=2)
    ds = ds.map(load_part, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def build_cnn():
    net = models.Sequential(name="casting_cnn")
    net.add(layers.Input((INPUT, INPUT, 1)))
    net.add(layers.RandomFlip("horizontal"))
    net.add(layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"))
    net.add(layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"))
    net.add(layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"))
    net.add(layers.Flatten())
    net.add(layers.Dense(32, activation="relu"))
    net.add(layers.Dense(1, activation="sigmoid"))
    return net


tf.keras.utils.set_random_seed(1)
with tempfile.TemporaryDirectory() as photo_dir:
    photograph_parts(photo_dir, PARTS)
    dataset = make_dataset(photo_dir)
    cnn = build_cnn()
    cnn.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

    start = time.perf_counter()
    log = cnn.fit(dataset, epochs=EPOCHS, verbose=2)
    duration = time.perf_counter() - start

print("best accuracy %.3f" % max(log.history["accuracy"]))
print("WORK", EPOCHS * PARTS)
print("TRAIN_SECONDS %.3f" % duration)
