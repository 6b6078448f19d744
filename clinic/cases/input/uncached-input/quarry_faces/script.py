"""Rock type from photographs of quarry faces (JPEG files in one folder per class)."""
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf

SIZE, RAW = 64, 320
CLASSES = ["basalt", "chalk", "gneiss"]
EPOCHS = 32


def write_photos(folder, each=64):
    rng = np.random.default_rng(8)
    for k, name in enumerate(CLASSES):
        (folder / name).mkdir()
        for i in range(each):
            coarse = rng.integers(0, 255, (10 + 20 * k, 10 + 20 * k, 3)).astype("float32")
            img = tf.image.resize(coarse, (RAW, RAW))
            data = tf.io.encode_jpeg(tf.cast(img, tf.uint8), quality=90)
            tf.io.write_file(str(folder / name / f"{i:03d}.jpg"), data)


def load(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.resize(img, (SIZE, SIZE), method="lanczos3", antialias=True)
    img = tf.image.per_image_standardization(img)
    return img, label


def dataset(folder):
    paths, labels = [], []
    for k, name in enumerate(CLASSES):
        for p in sorted((folder / name).glob("*.jpg")):
            paths.append(str(p))
            labels.append(k)
    order = np.random.default_rng(1).permutation(len(paths))
    ds = tf.data.Dataset.from_tensor_slices((np.array(paths)[order], np.array(labels)[order]))
    ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(len(paths), seed=2)
    return ds.batch(16).prefetch(tf.data.AUTOTUNE), len(paths)


def main():
    tf.keras.utils.set_random_seed(8)
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        write_photos(tmp)
        train, count = dataset(tmp)
        model = tf.keras.Sequential([
            tf.keras.Input((SIZE, SIZE, 3)),
            tf.keras.layers.Conv2D(12, 5, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(len(CLASSES)),
        ])
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        t0 = time.time()
        model.fit(train, epochs=EPOCHS, verbose=2)
        t1 = time.time()
        print("WORK", EPOCHS * count)
        print("TRAIN_SECONDS %.3f" % (t1 - t0))


main()
