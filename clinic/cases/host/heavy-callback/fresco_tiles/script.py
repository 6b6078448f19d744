"""Filling in missing plaster: an inpainting autoencoder on fresco tiles."""
import os
import tempfile

import numpy as np
import keras
from keras import layers

IMG = 32
MASK = 10
SEED = 444


def fresco(n):
    rng = np.random.default_rng(SEED)
    low = rng.uniform(0, 1, (n, 4, 4, 3)).astype("float32")
    tiles = low.repeat(8, 1).repeat(8, 2)
    tiles += rng.normal(0, 0.03, tiles.shape).astype("float32")
    broken = tiles.copy()
    for tile in broken:
        r, c = rng.integers(0, IMG - MASK, 2)
        tile[r:r + MASK, c:c + MASK] = 0
    return broken, tiles


def conv(x, f, s=1):
    x = layers.Conv2D(f, 3, strides=s, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x)


def restorer():
    img = keras.Input((IMG, IMG, 3))
    d1 = conv(img, 16, 2)
    d2 = conv(d1, 24, 2)
    mid = layers.Flatten()(d2)
    mid = layers.Dense(96, activation="relu")(mid)
    mid = layers.Dense(8 * 8 * 24)(mid)
    mid = layers.Reshape((8, 8, 24))(mid)
    u1 = conv(layers.UpSampling2D()(layers.Concatenate()([mid, d2])), 16)
    u2 = conv(layers.UpSampling2D()(layers.Concatenate()([u1, d1])), 16)
    return keras.Model(img, layers.Conv2D(3, 1, activation="sigmoid")(u2))


def main():
    keras.utils.set_random_seed(SEED)
    broken, tiles = fresco(640)
    model = restorer()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            keras.callbacks.ModelCheckpoint(
                os.path.join(folder, "restorer.keras"), save_freq=1),
            keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=2),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
        ]
        history = model.fit(broken, tiles, batch_size=32, epochs=3,
                            callbacks=callbacks, verbose=2)
        print("saved", os.path.getsize(os.path.join(folder, "restorer.keras")) // 1024, "KiB")
    print("mae", history.history["loss"][-1])


if __name__ == "__main__":
    main()
