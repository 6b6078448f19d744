"""Finds cracks in aqueducts on large grey pictures. Batches of four: on pictures of this size more would help little."""

import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def walls(count, side, seed):
    """Masonry courses; half of the pictures have a crack that wanders from top to bottom."""
    rng = np.random.default_rng(seed)
    cracked = rng.integers(2, size=count)
    y, x = np.mgrid[0:side, 0:side]
    course = ((y % 16 < 2) | ((x + (y // 16 % 2) * 12) % 24 < 2)).astype("float32")
    path = side / 2 + np.cumsum(rng.normal(0, 1.2, (count, side)), axis=1)
    crack = np.exp(-(((x[None] - path[:, :, None]) / 1.5) ** 2))
    pictures = 0.6 - 0.3 * course - 0.5 * cracked[:, None, None] * crack + rng.normal(0, 0.15, (count, side, side))
    return pictures.astype("float32")[..., None], cracked.astype("float32")


class Bottleneck(layers.Layer):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.narrow = layers.Conv2D(width // 2, 1, activation="relu")
        self.conv = layers.Conv2D(width // 2, 3, padding="same", activation="relu")
        self.wide = layers.Conv2D(width, 1)
        self.norm = layers.GroupNormalization(8)

    def call(self, x):
        return tf.nn.relu(x + self.norm(self.wide(self.conv(self.narrow(x)))))


def inspector(side, width=96, depth=4):
    inputs = keras.Input((side, side, 1))
    x = layers.Conv2D(width, 7, strides=4, padding="same", activation="relu")(inputs)
    for _ in range(depth):
        x = Bottleneck(width)(x)
    x = layers.Conv2D(2 * width, 3, strides=2, padding="same", activation="relu")(x)
    for _ in range(depth):
        x = Bottleneck(2 * width)(x)
    x = layers.GlobalMaxPooling2D()(x)
    return keras.Model(inputs, layers.Dense(1)(x))


def pipeline(pictures, cracked, batch, seed):
    data = tf.data.Dataset.from_tensor_slices((pictures, cracked))
    return data.shuffle(len(pictures), seed=seed).batch(batch, drop_remainder=True).prefetch(2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=192)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    keras.utils.set_random_seed(41)
    model = inspector(args.side)
    print(f"{model.count_params():,} parameters")
    pictures, cracked = walls(args.count, args.side, 41)
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    data = pipeline(pictures, cracked, args.batch, 42)
    began = time.perf_counter()
    model.fit(data, epochs=args.epochs, verbose=2)
    took = time.perf_counter() - began
    steps = args.epochs * (args.count // args.batch)
    print(f"trained in {took:.2f} s, {took / steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
