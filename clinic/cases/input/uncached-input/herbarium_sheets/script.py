"""Genus of a pressed plant from the scanned herbarium sheet."""
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

GENERA = ["Acer", "Betula", "Carex", "Dryas", "Erica", "Fagus"]
SHEETS_PER_GENUS = 55
SCAN = (420, 300)
SIDE = 64
BATCH = 16
EPOCHS = 22


def scan_sheets(root, seed=5):
    """One folder per genus, as the museum hands them out."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SCAN[0], 0:SCAN[1]].astype(np.float32)
    for g, genus in enumerate(GENERA):
        folder = root / genus
        folder.mkdir()
        for k in range(SHEETS_PER_GENUS):
            cy, cx = rng.uniform(150, 270), rng.uniform(110, 190)
            r = np.hypot((yy - cy) / 1.3, xx - cx)
            phi = np.arctan2(yy - cy, xx - cx) + rng.uniform(0, 6.28)
            edge = 75 + 22 * np.cos((g + 2) * phi)
            leaf = 0.5 - 0.5 * np.tanh((r - edge) / 6)
            veins = 0.5 + 0.5 * np.cos((6 + 2 * g) * phi + r / 9)
            paper = np.array([226, 214, 188], np.float32)
            green = np.array([70, 96, 52], np.float32) + 28 * veins[..., None]
            sheet = paper * (1 - leaf[..., None]) + green * leaf[..., None]
            sheet += rng.normal(0, 7, SCAN + (1,))
            data = tf.io.encode_jpeg(sheet.clip(0, 255).astype(np.uint8), quality=92)
            tf.io.write_file(str(folder / f"sheet_{k:03d}.jpg"), data)


def find_sheets(root):
    files, genus = [], []
    for g, name in enumerate(GENERA):
        for path in sorted((root / name).glob("*.jpg")):
            files.append(str(path))
            genus.append(g)
    return files, genus


def read_sheet(path, genus):
    sheet = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    sheet = tf.image.resize(sheet, (SIDE, SIDE), method="area")
    sheet = tf.image.rgb_to_grayscale(sheet) / 255.0
    return tf.ensure_shape(sheet, (SIDE, SIDE, 1)), genus


def make_dataset(files, genus):
    ds = tf.data.Dataset.from_tensor_slices((files, genus))
    ds = ds.shuffle(len(files), seed=5)
    ds = ds.map(read_sheet, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model():
    sheet = keras.Input((SIDE, SIDE, 1), name="sheet")
    x = layers.Conv2D(12, 5, strides=2, padding="same", activation="relu")(sheet)
    x = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.3)(x)
    genus = layers.Dense(len(GENERA), activation="softmax", name="genus")(x)
    return keras.Model(sheet, genus)


keras.utils.set_random_seed(5)
root = pathlib.Path(tempfile.mkdtemp(prefix="herbarium_"))
scan_sheets(root)
files, genus = find_sheets(root)
print(len(files), "sheets")

model = make_model()
model.compile(optimizer=keras.optimizers.Nadam(1e-3),
              loss="sparse_categorical_crossentropy", metrics=["accuracy"])
ds = make_dataset(files, genus)

tic = time.perf_counter()
model.fit(ds, epochs=EPOCHS, verbose=2)
toc = time.perf_counter()
print(f"TRAIN_SECONDS {toc - tic:.2f}")
