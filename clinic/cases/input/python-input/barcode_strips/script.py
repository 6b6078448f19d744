"""Read the first digit of damaged barcodes: strips are drawn on the fly, with random blur."""
import argparse

import numpy as np
import tensorflow as tf
import keras

L_CODES = ["0001101", "0011001", "0010011", "0111101", "0100011",
           "0110001", "0101111", "0111011", "0110111", "0001011"]


class Press:
    """Prints barcodes as (height, width) strips."""

    def __init__(self, digits=10, module=3, height=24):
        self.digits, self.module, self.height = digits, module, height
        self.width = digits * 7 * module

    def modules(self, number):
        bits = ""
        for d in number:
            bits += L_CODES[int(d)]
        return bits

    def ink(self, number):
        strip = np.zeros((self.height, self.width), np.float32)
        for m, bit in enumerate(self.modules(number)):
            for c in range(m * self.module, (m + 1) * self.module):
                for r in range(self.height):
                    strip[r, c] = 1.0 - float(bit)
        return strip


PRESS = Press()


def draw(numbers):
    return np.stack([PRESS.ink(n) for n in numbers])


def damage(strips, first):
    strips.set_shape([None, PRESS.height, PRESS.width])
    noisy = strips + tf.random.normal(tf.shape(strips), stddev=0.35)
    return noisy[..., None], first


def strips(args):
    rng = np.random.default_rng(args.seed)
    numbers = rng.integers(0, 10, (args.codes, PRESS.digits)).astype("int32")
    ds = tf.data.Dataset.from_tensor_slices((numbers, numbers[:, 0]))
    ds = ds.shuffle(args.codes, seed=args.seed).batch(args.batch)
    ds = ds.map(lambda n, first: (tf.numpy_function(draw, [n], tf.float32), first),
                num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(damage, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def reader():
    return keras.Sequential([
        keras.Input((PRESS.height, PRESS.width, 1)),
        keras.layers.AveragePooling2D((6, 1)),
        keras.layers.Conv2D(16, (2, 7), activation="relu"),
        keras.layers.MaxPooling2D((1, 3)),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--codes", type=int, default=1600)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--seed", type=int, default=19)
    args = p.parse_args()
    keras.utils.set_random_seed(args.seed)
    model = reader()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(strips(args), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
