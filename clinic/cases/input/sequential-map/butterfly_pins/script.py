# Pinned butterflies from a museum drawer scan -- species from the wing photograph.
# Kernel-style: config, files, dataset, model, train, score.
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras


class CFG:
    seed = 77
    photos = 120
    n_train = 2800
    n_valid = 200
    raw = 520
    size = 64
    batch = 20
    species = 5


rng = np.random.default_rng(CFG.seed)
keras.utils.set_random_seed(CFG.seed)
folder = tempfile.mkdtemp(prefix="pins_")

# ---------------------------------------------------------------- drawer scans
yy, xx = np.mgrid[0:CFG.raw, 0:CFG.raw] / CFG.raw
plates = []
for s in range(CFG.species):
    wing = np.exp(-(((xx - .5) / (.15 + .04 * s)) ** 2 + ((yy - .5) / .3) ** 2))
    veins = 0.5 + 0.5 * np.sin(xx * (20 + 9 * s) + yy * 12)
    plates.append(np.stack([wing * veins, wing * (1 - veins), wing], -1))

photos, kinds = [], []
for k in range(CFG.photos):
    s = int(rng.integers(CFG.species))
    img = np.roll(plates[s], rng.integers(-30, 30, 2), (0, 1))
    img = (img * 220 + rng.integers(0, 30, img.shape)).astype("uint8")
    path = os.path.join(folder, f"pin_{k:05d}.jpg")
    tf.io.write_file(path, tf.io.encode_jpeg(img, quality=92))
    photos.append(path)
    kinds.append(s)

# the same specimen turns up in many drawers
drawer = rng.integers(0, CFG.photos, CFG.n_train + CFG.n_valid)
paths = [photos[i] for i in drawer]
labels = [kinds[i] for i in drawer]


# -------------------------------------------------------------------- datasets
def load_image(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_crop(img, (CFG.raw - 40, CFG.raw - 40, 3))
    img = tf.image.resize(img, (CFG.size, CFG.size), method="area")
    return img / 255.0, label


def get_dataset(p, y, shuffle=False):
    ds = tf.data.Dataset.from_tensor_slices((p, y))
    if shuffle:
        ds = ds.shuffle(len(p), seed=CFG.seed)
    ds = ds.map(load_image)
    return ds.batch(CFG.batch).prefetch(tf.data.AUTOTUNE)


train_ds = get_dataset(paths[:CFG.n_train], labels[:CFG.n_train], shuffle=True)
valid_ds = get_dataset(paths[CFG.n_train:], labels[CFG.n_train:])

# ----------------------------------------------------------------------- model
model = keras.Sequential([
    keras.layers.Input((CFG.size, CFG.size, 3)),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(CFG.species, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
hist = model.fit(train_ds, epochs=1, verbose=2)
print("train loss", hist.history["loss"])
print("valid", model.evaluate(valid_ds, verbose=0))
