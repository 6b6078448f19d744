"""Land-use classes from aerial tiles, fitted straight from arrays."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)

SMALL = os.environ.get("SMALL") == "1"
SIDE = 64 if SMALL else 128
BATCH = 16 if SMALL else 512
TILES = 16 * 5 if SMALL else 512 * 18
EPOCHS = 2 if SMALL else 30
WIDTH = 16 if SMALL else 128
CLASSES = 9


def load_tiles(seed=9):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, TILES).astype("int32")
    tint = rng.integers(40, 160, (CLASSES, 1, 1, 3), dtype=np.uint8)
    pixels = rng.integers(0, 96, (TILES, SIDE, SIDE, 3), dtype=np.uint8)
    for i, label in enumerate(labels):
        pixels[i] += tint[label]
    return pixels, labels


def residual(x, width):
    y = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(width, 3, padding="same")(y)
    return layers.ReLU()(layers.Add()([x, y]))


def build():
    inputs = keras.Input((SIDE, SIDE, 3))
    x = layers.Conv2D(WIDTH, 8, strides=8, activation="relu")(inputs)
    x = residual(x, WIDTH)
    x = residual(x, WIDTH)
    x = layers.Conv2D(2 * WIDTH, 3, strides=2, padding="same", activation="relu")(x)
    x = residual(x, 2 * WIDTH)
    x = residual(x, 2 * WIDTH)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(CLASSES)(x))
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def main():
    pixels, labels = load_tiles()
    tiles = pixels.astype("float32") / 255.0
    model = build()
    model.fit(tiles, labels, batch_size=BATCH, epochs=1, shuffle=False, verbose=2)
    began = time.perf_counter()
    history = model.fit(tiles, labels, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=2)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    steps = EPOCHS * (TILES // BATCH)
    print(f"steady_ms={1e3 * took / steps:.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
