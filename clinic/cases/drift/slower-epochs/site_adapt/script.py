"""Adapts a histology-tile classifier over acquisition rounds; each round adds a little stain variation to what the net sees."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIDE, TILES, CLASSES = 48, 640, 4


def synth_tiles(seed=0):
    g = np.random.default_rng(seed)
    y = g.integers(0, CLASSES, TILES)
    x = g.uniform(0.2, 0.8, (TILES, SIDE, SIDE, 3)).astype("float32")
    for c in range(CLASSES):
        x[y == c, ::c + 2, :, c % 3] *= 0.5
    return x, y


def stain(image, label):
    hsv = tf.image.rgb_to_hsv(tf.clip_by_value(image, 0.0, 1.0))
    shift = tf.random.uniform([3], -0.02, 0.02)
    hsv = tf.clip_by_value(hsv + shift, 0.0, 1.0)
    image = tf.image.hsv_to_rgb(hsv)
    image = tf.image.resize(tf.image.resize(image, (SIDE + 8, SIDE + 8)), (SIDE, SIDE))
    return image, label


def net():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(12, 5, strides=3, activation="relu"),
        keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(CLASSES),
    ])


class RoundTrainer:
    def __init__(self, rounds, batch):
        self.rounds, self.batch = rounds, batch
        self.tiles = tf.data.Dataset.from_tensor_slices(synth_tiles()).cache()
        self.model = net()
        self.model.compile(keras.optimizers.Adam(2e-3),
                           keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                           metrics=["accuracy"])

    def loader(self):
        return self.tiles.shuffle(TILES).batch(self.batch).prefetch(tf.data.AUTOTUNE)

    def run(self):
        for r in range(self.rounds):
            self.tiles = self.tiles.map(stain, num_parallel_calls=tf.data.AUTOTUNE)
            t0 = time.perf_counter()
            h = self.model.fit(self.loader(), verbose=0)
            print(f"round {r:2d} loss {h.history['loss'][0]:.4f} acc {h.history['accuracy'][0]:.3f} "
                  f"{time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(7)
    RoundTrainer(rounds=12, batch=64).run()
