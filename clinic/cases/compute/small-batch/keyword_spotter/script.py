"""Keyword spotter on log-mel patches (synthetic), settings carried over from a phone-sized fine-tuning recipe."""
import time

import keras
import numpy as np
from keras import layers

RECIPE = {
    "optimizer": {"learning_rate": 2e-3, "gradient_accumulation_steps": 16},
    "fit": {"batch_size": 4, "epochs": 2, "verbose": 2},
    "clips": 6400,
    "words": 12,
}


def clips(n, words):
    rng = np.random.default_rng(21)
    y = rng.integers(0, words, n)
    bank = rng.normal(size=(words, 32, 20)).astype("float32")
    x = bank[y] + rng.normal(0, 2.0, (n, 32, 20)).astype("float32")
    return x[..., None], y


def spotter(words):
    return keras.Sequential([
        layers.Input((32, 20, 1)),
        layers.Conv2D(12, (5, 5), strides=(2, 2), activation="relu"),
        layers.DepthwiseConv2D(3, padding="same", activation="relu"),
        layers.Conv2D(24, 1, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(48, activation="relu"),
        layers.Dense(words),
    ])


if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    x, y = clips(RECIPE["clips"], RECIPE["words"])
    net = spotter(RECIPE["words"])
    net.compile(keras.optimizers.Adam(**RECIPE["optimizer"]),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    t0 = time.perf_counter()
    net.fit(x, y, **RECIPE["fit"])
    print(f"{time.perf_counter() - t0:.1f}s")
