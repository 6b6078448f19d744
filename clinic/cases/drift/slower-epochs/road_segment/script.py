"""Road segmentation from aerial tiles; a fresh augmentation is attached for every epoch."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

TILE = 64


def tiles(n, seed=6):
    rng = np.random.default_rng(seed)
    x = rng.random((n, TILE, TILE, 3), dtype=np.float32)
    y = np.zeros((n, TILE, TILE, 1), np.float32)
    for k in range(n):
        c = rng.integers(4, TILE - 4)
        if k % 2:
            y[k, c - 2:c + 2] = 1
        else:
            y[k, :, c - 2:c + 2] = 1
    return x * 0.5 + y * 0.5, y


def augmenter(seed):
    rng = tf.random.Generator.from_seed(seed)

    def apply(x, y):
        k = rng.uniform((), 0, 4, tf.int32)
        both = tf.image.rot90(tf.concat([x, y], -1), k)
        both = tf.cond(rng.uniform(()) < 0.5, lambda: tf.reverse(both, [2]), lambda: both)
        x, y = both[..., :3], both[..., 3:]
        x = tf.image.adjust_contrast(x, rng.uniform((), 0.8, 1.2))
        x = tf.image.adjust_saturation(x, rng.uniform((), 0.7, 1.3))
        return tf.clip_by_value(x, 0.0, 1.0), y

    return apply


def net():
    s = keras.Sequential([keras.Input((TILE, TILE, 3))])
    s.add(keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"))
    s.add(keras.layers.Conv2D(8, 3, padding="same", activation="relu"))
    s.add(keras.layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="sigmoid"))
    return s


def main():
    x, y = tiles(480)
    train = tf.data.Dataset.from_tensor_slices((x, y)).batch(16).cache()
    model = net()
    model.compile("adam", "binary_crossentropy")
    for epoch in range(9):
        t0 = time.perf_counter()
        train = train.map(augmenter(epoch), num_parallel_calls=2).prefetch(2)
        h = model.fit(train, verbose=0)
        print(f"epoch {epoch}: loss {h.history['loss'][0]:.4f} in {time.perf_counter() - t0:.2f}s")


if __name__ == "__main__":
    main()
