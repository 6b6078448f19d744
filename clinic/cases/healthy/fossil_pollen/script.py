"""Fossil pollen grains: residual CNN on grain stacks, a small batch because the stacks are deep."""
import time

import keras
import numpy as np
from keras import layers

GRAINS = 8


def grain_sizes(n):
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(n):
        sizes.append(float(rng.normal(22, 4)))
    return np.array(sizes, "float32")


def stacks(n, side=64, depth=8):
    rng = np.random.default_rng(1)
    size = grain_sizes(n)
    kind = rng.integers(0, GRAINS, n)
    yy, xx = np.mgrid[:side, :side] - side / 2
    ang = np.arctan2(yy, xx)[None]
    r = np.hypot(yy, xx)[None] * (1 + 0.1 * np.cos(kind[:, None, None] * ang))
    img = 1 / (1 + np.exp(r - size[:, None, None]))
    x = img[..., None] * rng.uniform(0.5, 1.5, (n, 1, 1, depth))
    return x.astype("float32"), kind.astype("int32")


def residual(x, width):
    h = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    h = layers.Conv2D(width, 3, padding="same")(h)
    if x.shape[-1] != width:
        x = layers.Conv2D(width, 1)(x)
    return layers.Activation("relu")(layers.Add()([x, h]))


def grain_net():
    inp = keras.Input((64, 64, 8))
    h = residual(inp, 32)
    h = layers.MaxPooling2D()(h)
    h = residual(h, 64)
    h = layers.MaxPooling2D()(h)
    h = residual(h, 96)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(GRAINS, activation="softmax")(h))


if __name__ == "__main__":
    x, y = stacks(96)
    net = grain_net()
    net.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    net.fit(x, y, batch_size=8, epochs=5, verbose=2)
    spent = time.time() - t0
    print("WORK", len(x) * 5)
    print("TRAIN_SECONDS %.2f" % spent)
