"""Spore prints to species: a plain CNN that can be taken up again where the night shift's machine was switched off."""
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf

SPECIES = 8
SIDE = 40


def spore_prints(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j]
    species = rng.integers(0, SPECIES, n)
    images = np.empty((n, SIDE, SIDE, 1), np.float32)
    for i, s in enumerate(species):
        r = np.hypot(xx - rng.normal(0, 0.1), yy - rng.normal(0, 0.1))
        gills = np.cos((6 + 3 * s) * np.arctan2(yy, xx) + rng.uniform(0, 6))
        images[i, :, :, 0] = (r < 0.8) * (0.5 + 0.5 * gills) + 0.2 * rng.normal(size=r.shape)
    return images, species.astype("int64")


def make_model():
    return tf.keras.Sequential([
        tf.keras.layers.Input((SIDE, SIDE, 1)),
        tf.keras.layers.Conv2D(16, 5, strides=2, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(192, activation="relu"),
        tf.keras.layers.Dense(SPECIES),
    ])


def train(out, epochs=4, batch=64):
    images, species = spore_prints(5120)
    ds = (tf.data.Dataset.from_tensor_slices((images, species))
          .shuffle(5120, seed=2).batch(batch).prefetch(tf.data.AUTOTUNE))
    model = make_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    keep = tf.keras.callbacks.ModelCheckpoint(
        filepath=str(out / "latest.keras"),
        save_freq=3,
    )
    start = time.perf_counter()
    model.fit(ds, epochs=epochs, shuffle=False, callbacks=[keep], verbose=2)
    seconds = time.perf_counter() - start
    print("WORK", epochs * len(images))
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(6)
    with tempfile.TemporaryDirectory() as folder:
        train(pathlib.Path(folder))
