import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

RUNTIME = {
    "seed": 1234,
    "threads": os.cpu_count(),
    "soft_placement": True,
}
SIGNS = 20
SIDE = 64


def configure(rt):
    tf.config.threading.set_intra_op_parallelism_threads(rt["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(rt["threads"])
    tf.config.set_soft_device_placement(rt["soft_placement"])
    keras.utils.set_random_seed(rt["seed"])


def write_frames(folder, n=1600):
    rng = np.random.default_rng(0)
    paths, labels = [], rng.integers(0, SIGNS, n).astype("int32")
    for i, label in enumerate(labels):
        frame = rng.integers(0, 90, (480, 640, 3), dtype=np.uint8)
        r, c = rng.integers(20, 300), rng.integers(20, 400)
        frame[r:r + 120, c:c + 120] = (40 + 10 * label, 255 - 10 * label, 128)
        path = os.path.join(folder, f"{i:05d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(frame, quality=90))
        paths.append(path)
    return paths, labels


def crop_and_resize(path, label):
    frame = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    frame = tf.image.random_crop(frame, (440, 600, 3))
    frame = tf.image.resize(frame, (SIDE, SIDE), antialias=True)
    return tf.cast(frame, tf.uint8), label


def frames_dataset(folder, rt):
    paths, labels = write_frames(folder)
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = rt["threads"]
    ds = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
    ds = ds.map(crop_and_resize, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(64, drop_remainder=True).prefetch(tf.data.AUTOTUNE).with_options(options)


def build():
    model = keras.Sequential([
        keras.Input((SIDE, SIDE, 3), dtype="uint8"),
        layers.Rescaling(1 / 255.0),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(128, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(SIGNS, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    configure(RUNTIME)
    with tempfile.TemporaryDirectory() as folder:
        build().fit(frames_dataset(folder, RUNTIME), epochs=8, verbose=2)
