"""Segmenting cells: big tiles, four at a time."""
import argparse
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers


def tiles(n, side, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:side, :side]
    mask = np.zeros((n, side, side), np.float32)
    for i in range(n):
        for cy, cx, r in zip(*rng.integers(0, side, (2, 9)), rng.integers(6, 16, 9)):
            mask[i] = np.maximum(mask[i], ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r))
    image = 0.5 * mask + rng.random(mask.shape, dtype=np.float32) * 0.5
    return image[..., None], mask[..., None]


def conv(x, f):
    x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(f, 3, padding="same", activation="relu")(x)


def unet(side):
    inp = keras.Input((side, side, 1))
    x, skips = inp, []
    for f in (24, 48):
        x = conv(x, f)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(x, 96)
    for f, s in zip((48, 24), reversed(skips)):
        x = layers.Conv2DTranspose(f, 2, strides=2)(x)
        x = conv(layers.Concatenate()([x, s]), f)
    return keras.Model(inp, layers.Conv2D(1, 1)(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tiles", type=int, default=40)
    p.add_argument("--side", type=int, default=128)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    keras.utils.set_random_seed(0)
    data = tf.data.Dataset.from_tensor_slices(tiles(a.tiles, a.side, 0)).shuffle(a.tiles).batch(a.batch).prefetch(2)
    model = unet(a.side)
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    t = time.time()
    model.fit(data, epochs=a.epochs, verbose=2)
    print("WORK", a.tiles * a.epochs)
    print("TRAIN_SECONDS %.2f" % (time.time() - t))


main()
