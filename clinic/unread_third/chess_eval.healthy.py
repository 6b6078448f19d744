"""Static evaluation of chess positions, residual tower."""
import random

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

PIECES = "PNBRQKpnbrqk"
VALUE = dict(zip(PIECES, (1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0)))


def positions(n=15_000):
    rnd = random.Random(64)
    for _ in range(n):
        board = np.zeros((8, 8, 12), np.uint8)
        score = 0
        for sq in rnd.sample(range(64), rnd.randint(6, 30)):
            p = rnd.choice(PIECES)
            board[sq // 8, sq % 8, PIECES.index(p)] = 1
            score += VALUE[p]
        yield board, np.float32(np.tanh(score / 10))


def dataset(batch=256):
    spec = (tf.TensorSpec((8, 8, 12), tf.uint8), tf.TensorSpec((), tf.float32))
    ds = tf.data.Dataset.from_generator(positions, output_signature=spec)
    ds = ds.cache()
    ds = ds.shuffle(15_000)
    ds = ds.batch(batch, drop_remainder=True)
    ds = ds.map(lambda b, s: (tf.cast(b, tf.float32), s))
    return ds.prefetch(tf.data.AUTOTUNE)


def tower(blocks=10, width=128):
    inp = keras.Input((8, 8, 12))
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(inp)
    for _ in range(blocks):
        y = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        y = layers.BatchNormalization()(y)
        y = layers.ReLU()(y)
        y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
        y = layers.BatchNormalization()(y)
        x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.Conv2D(8, 1, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(128, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1, activation="tanh")(x))


def main():
    model = tower()
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 58 * 40)
    model.compile(optimizer=keras.optimizers.Adam(schedule), loss="mse", metrics=["mae"])
    model.fit(dataset(), epochs=40, verbose=2)


if __name__ == "__main__":
    main()
