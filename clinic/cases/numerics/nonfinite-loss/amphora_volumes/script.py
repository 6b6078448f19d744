"""Same potter, same hand? Amphora profiles are drawn together or pushed apart by a contrastive loss on distances."""

import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

POINTS, POTTERS = 96, 40


def profiles(count, seed):
    """Radius along the height, one row a vessel; the shop's catalogue holds some vessels under two numbers."""
    rng = np.random.default_rng(seed)
    potter = rng.integers(POTTERS, size=count)
    hand = rng.normal(0, 1, (POTTERS, 5))
    t = np.linspace(0, 1, POINTS)
    waves = np.stack([np.sin(np.pi * (k + 1) * t) for k in range(5)])
    shape = (hand[potter] + rng.normal(0, 0.35, (count, 5))) @ waves
    return (shape + rng.normal(0, 0.02, shape.shape)).astype("float32"), potter


def pairs(shapes, potters, count, seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(len(shapes), size=count)
    right = rng.integers(len(shapes), size=count)
    twins = rng.random(count) < 0.4
    by_potter = [np.flatnonzero(potters == p) for p in range(POTTERS)]
    for k in np.flatnonzero(twins):
        right[k] = rng.choice(by_potter[potters[left[k]]])
    right[: count // 2] = np.where(right == left, (right + 1) % len(shapes), right)[: count // 2]
    return left, right, (potters[left] == potters[right]).astype("float32")


class Distance(keras.layers.Layer):
    """The angle between two embeddings."""

    def call(self, pair):
        a, b = pair
        a, b = tf.nn.l2_normalize(a, axis=-1), tf.nn.l2_normalize(b, axis=-1)
        cosine = tf.reduce_sum(a * b, axis=-1)
        return tf.acos(tf.clip_by_value(cosine, -1.0, 1.0))


def contrast(same, distance, margin=1.0):
    same = tf.reshape(same, [-1])
    apart = tf.maximum(margin - distance, 0.0)
    return tf.reduce_mean(same * tf.square(distance) + (1.0 - same) * tf.square(apart))


def tower(width):
    inputs = keras.Input((POINTS, 1))
    x = inputs
    for filters in (48, 96, 128):
        x = keras.layers.Conv1D(filters, 5, padding="same", activation="relu")(x)
        x = keras.layers.AveragePooling1D(2)(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(inputs, keras.layers.Dense(width)(x), name="tower")


def siamese(width):
    a, b = keras.Input((POINTS, 1)), keras.Input((POINTS, 1))
    shared = tower(width)
    return keras.Model([a, b], Distance()([shared(a), shared(b)]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=46000)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    keras.utils.set_random_seed(9)
    shapes, potters = profiles(2500, 9)
    left, right, same = pairs(shapes, potters, args.pairs, 10)
    model = siamese(24)
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss=contrast, jit_compile=False)
    began = time.perf_counter()
    for part in np.array_split(np.arange(args.pairs), 6):
        x = [shapes[left[part]][..., None], shapes[right[part]][..., None]]
        history = model.fit(x, same[part], batch_size=args.batch, shuffle=False, verbose=0)
        print(f"loss {history.history['loss'][-1]:.4f} after {time.perf_counter() - began:.2f} s")
    took = time.perf_counter() - began
    print(f"trained in {took:.2f} s, {took / (args.pairs / args.batch) * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
