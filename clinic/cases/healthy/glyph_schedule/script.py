"""Glyph recogniser: cosine learning rate, weights kept after each epoch."""
import math
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras
from keras import layers

EPOCHS, BATCH, CLASSES = 7, 64, 10
PEAK, FLOOR, WARM = 2e-3, 1e-5, 1


def glyphs(n, rng):
    stamp = rng.uniform(0, 200, (CLASSES, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    y = rng.integers(0, CLASSES, n)
    x = stamp.astype("float32")[y] + 45 * rng.standard_normal((n, 32, 32, 3), dtype=np.float32)
    return np.clip(x, 0, 255).astype("uint8"), y.astype("int32")


def learning_rate(epoch, current):
    if epoch < WARM:
        return PEAK / 4
    done = (epoch - WARM) / max(1, EPOCHS - WARM)
    return FLOOR + 0.5 * (PEAK - FLOOR) * (1 + math.cos(math.pi * done))


def network():
    inp = keras.Input((32, 32, 3), dtype="uint8")
    h = layers.Rescaling(1 / 255.0)(inp)
    h = layers.Conv2D(32, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
    h = layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
    h = layers.Conv2D(128, 3, padding="same", activation="relu")(h)
    h = layers.Conv2D(128, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(CLASSES)(h))


def main():
    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(2)
    x, y = glyphs(2560 + 256, rng)
    train = (
        tf.data.Dataset.from_tensor_slices((x[:2560], y[:2560]))
        .shuffle(2560, seed=2)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    held_out = tf.data.Dataset.from_tensor_slices((x[2560:], y[2560:])).batch(128).prefetch(1)
    folder = tempfile.mkdtemp(prefix="glyphs_")
    model = network()
    model.compile(
        optimizer=keras.optimizers.Adam(PEAK),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train,
        validation_data=held_out,
        epochs=EPOCHS,
        callbacks=[
            keras.callbacks.LearningRateScheduler(learning_rate),
            keras.callbacks.ModelCheckpoint(
                os.path.join(folder, "{epoch:02d}.weights.h5"), save_weights_only=True),
        ],
        verbose=2,
    )
    print(sorted(os.listdir(folder)))


if __name__ == "__main__":
    main()
