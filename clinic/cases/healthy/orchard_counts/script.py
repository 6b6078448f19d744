"""Counts fruit in orchard pictures; random windows are decoded straight from JPEG for every sample."""
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

WIN, BATCH = 96, 16


def pictures(n=48, side=320):
    root = tempfile.mkdtemp(prefix="orchard_")
    rng = np.random.default_rng(14)
    rows = []
    for i in range(n):
        img = np.full((side, side, 3), (60, 120, 50), "uint8") + rng.integers(0, 25, (side, side, 3), dtype="uint8")
        k = int(rng.integers(5, 60))
        for cy, cx in rng.integers(6, side - 6, (k, 2)):
            img[cy - 5:cy + 5, cx - 5:cx + 5] = (210, 40, 30)
        name = f"{root}/{i}.jpg"
        tf.io.write_file(name, tf.io.encode_jpeg(img))
        rows.append((name, k / 30.0))
    return rows


def window(name, density):
    corner = tf.random.uniform((2,), 0, 320 - WIN, tf.int32)
    box = tf.concat([corner, [WIN, WIN]], 0)
    img = tf.image.decode_and_crop_jpeg(tf.io.read_file(name), box, channels=3)
    img = tf.image.random_flip_left_right(img)
    img.set_shape((WIN, WIN, 3))
    return img, density


def feed(rows):
    names, density = zip(*rows)
    ds = tf.data.Dataset.from_tensor_slices((list(names), np.array(density, "float32")))
    ds = ds.shuffle(len(names)).repeat()
    ds = ds.map(window, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def counter():
    inp = keras.Input((WIN, WIN, 3))
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(inp)
    for f in (32, 48, 64):
        x = keras.layers.Conv2D(f, 3, padding="same", activation="relu")(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(1)(x))


model = counter()
model.compile(optimizer="adam", loss="mse")
model.fit(feed(pictures()), epochs=2, steps_per_epoch=35, verbose=2)
