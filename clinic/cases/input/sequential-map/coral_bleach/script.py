"""Grade coral colonies from reef transect photographs (healthy / pale / bleached / dead)."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIDE = 96
BATCH = 32
EPOCHS = 6
rng = np.random.default_rng(11)


def write_transects(folder, count=640):
    paths, grades = [], []
    grain = rng.normal(0, 0.05, (8, 512, 512, 3))
    yy, xx = np.mgrid[0:512, 0:512] / 512.0
    looks = []
    for grade in range(4):
        looks.append(np.stack([
            0.4 + 0.15 * grade + 0.1 * np.sin(20 * xx),
            0.3 + 0.10 * grade + 0.1 * np.cos(14 * yy),
            0.35 + 0.12 * grade + 0.05 * np.sin(9 * (xx + yy)),
        ], axis=-1))
    for i in range(count):
        grade = i % 4
        base = looks[grade] + grain[rng.integers(8)]
        pixels = (np.clip(base, 0, 1) * 255).astype("uint8")
        path = folder / f"transect_{i:04d}.jpg"
        path.write_bytes(tf.io.encode_jpeg(pixels, quality=88).numpy())
        paths.append(str(path))
        grades.append(grade)
    return np.array(paths), np.array(grades, dtype="int32")


def load_photo(path, grade):
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    photo = tf.image.random_flip_left_right(photo)
    photo = tf.image.random_crop(photo, (448, 448, 3))
    photo = tf.image.resize(photo, (SIDE, SIDE))
    return photo / 255.0, grade


def make_pipeline(paths, grades):
    ds = tf.data.Dataset.from_tensor_slices((paths, grades))
    ds = ds.shuffle(len(paths), seed=3)
    ds = ds.map(load_photo)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(4),
    ])


def main():
    with tempfile.TemporaryDirectory() as tmp:
        paths, grades = write_transects(pathlib.Path(tmp))
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.Adam(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        history = model.fit(make_pipeline(paths, grades), epochs=EPOCHS, verbose=2)
    print("final accuracy", round(history.history["accuracy"][-1], 3))


if __name__ == "__main__":
    main()
