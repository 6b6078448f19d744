"""Outlines gargoyles on photographs of a facade: a small U-net, fed by a Python generator of whole batches."""

import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE, BATCH, STEPS = 64, 16, 110


class Facade:
    """Makes batches of stone with a dark, uneven figure in front of it."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.y, self.x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j].astype("float32")
        self.angle = np.arctan2(self.y, self.x)
        self.radius = np.hypot(self.y, self.x)

    def batches(self):
        for _ in range(STEPS):
            lobes = self.rng.uniform(0.0, 0.12, (BATCH, 3, 1, 1)).astype("float32")
            outline = 0.45 + sum(lobes[:, k] * np.cos((k + 2) * self.angle) for k in range(3))
            mask = (self.radius < outline).astype("float32")
            stone = self.rng.standard_normal((BATCH, SIDE, SIDE), dtype=np.float32)
            image = 0.6 + 0.15 * stone - 0.25 * mask
            yield image[..., None], mask[..., None]


def block(x, width):
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(width, 3, padding="same", activation="relu")(x)


def small_unet(widths=(16, 32, 64)):
    inputs = keras.Input((SIDE, SIDE, 1))
    x, skips = inputs, []
    for width in widths[:-1]:
        x = block(x, width)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = block(x, widths[-1])
    for width, skip in zip(reversed(widths[:-1]), reversed(skips)):
        x = layers.UpSampling2D()(x)
        x = block(layers.Concatenate()([x, skip]), width)
    return keras.Model(inputs, layers.Conv2D(1, 1)(x))


def dice(y_true, y_pred):
    p = tf.sigmoid(y_pred)
    both = tf.reduce_sum(p * y_true, (1, 2, 3))
    return 1.0 - tf.reduce_mean((2 * both + 1.0) / (tf.reduce_sum(p + y_true, (1, 2, 3)) + 1.0))


def main():
    keras.utils.set_random_seed(77)
    spec = tf.TensorSpec((BATCH, SIDE, SIDE, 1), tf.float32)
    data = tf.data.Dataset.from_generator(Facade(77).batches, output_signature=(spec, spec)).prefetch(4)
    model = small_unet()
    model.compile(keras.optimizers.Adam(1e-3), loss=dice)
    began = time.perf_counter()
    history = model.fit(data, epochs=1, verbose=2)
    took = time.perf_counter() - began
    print(f"dice loss {history.history['loss'][-1]:.4f}, {took:.2f} s, {took / STEPS * 1e3:.1f} ms a step")

    facade = Facade(77)
    made = time.perf_counter()
    for number, _ in enumerate(facade.batches()):
        if number == 19:
            break
    print(f"a batch alone takes {(time.perf_counter() - made) / 20 * 1e3:.2f} ms to make")


if __name__ == "__main__":
    main()
