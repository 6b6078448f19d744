"""Tissue type from histology tiles: plain convolutional net, arrays in memory."""
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)


def tiles(n=768, side=64):
    rng = np.random.default_rng(0)
    x = rng.random((n, side, side, 3), dtype="float32")
    y = rng.integers(0, 4, n)
    for k in range(4):
        x[y == k, k * 8 : k * 8 + 8] *= 0.5
    return x, y


def block(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.MaxPooling2D()(x)


inputs = keras.Input((64, 64, 3))
h = inputs
for filters in (32, 64, 96):
    h = block(h, filters)
h = layers.GlobalAveragePooling2D()(h)
h = layers.Dropout(0.2)(h)
model = keras.Model(inputs, layers.Dense(4, activation="softmax")(h))
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

x, y = tiles()
history = model.fit(x, y, batch_size=32, epochs=2, verbose=2)

# a first look at what it learned
sample = model.predict(x[:64], batch_size=64, verbose=0).argmax(1)
for k in range(4):
    chosen = sample[y[:64] == k]
    print("class", k, "predicted", np.bincount(chosen, minlength=4))
print("loss", history.history["loss"][-1])
