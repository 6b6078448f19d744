"""Share of tree canopy in aerial tiles (regression with a small convnet)."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(45)
rng = np.random.default_rng(45)


def tiles(n):
    cover = rng.uniform(0, 1, n)
    green = rng.random((n, 48, 48)) < cover[:, None, None]
    rgb = rng.normal(0.3, 0.1, (n, 48, 48, 3))
    rgb[..., 1] += 0.3 * green
    return rgb.astype("float32"), cover.astype("float32")


x, y = tiles(1664)
xv, yv = tiles(128)

inp = keras.Input((48, 48, 3))
h = layers.Conv2D(24, 3, padding="same", activation="relu")(inp)
h = layers.MaxPooling2D()(h)
for width in (32, 64):
    h = layers.Conv2D(width, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
h = layers.GlobalAveragePooling2D()(h)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse", metrics=["mae"])
model.fit(x, y, batch_size=64, epochs=5, verbose=2, validation_data=(xv, yv),
          callbacks=[keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)])
