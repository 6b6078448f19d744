"""Difficulty of crossword clues from hashed letter groups."""
import random
import zlib

import numpy as np
import tensorflow as tf
import keras

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BUCKETS = 512


def invent_clues(count):
    rnd = random.Random(8)
    clues, hardness = [], []
    for _ in range(count):
        words = ["".join(rnd.choices(LETTERS, k=rnd.randint(3, 11))) for _ in range(6)]
        clues.append(" ".join(words))
        hardness.append(sum(map(len, words)) / 40.0)
    return clues, np.array(hardness, dtype=np.float32)


def clue_features(order=(2, 3, 4)):
    def encode(clue, hardness):
        def grams(raw):
            text = raw.decode("ascii")
            counts = np.zeros(BUCKETS, np.float32)
            for size in order:
                for start in range(len(text) - size + 1):
                    counts[zlib.crc32(text[start:start + size].encode()) % BUCKETS] += 1.0
            return counts / counts.sum()

        vector = tf.numpy_function(grams, [clue], tf.float32, stateful=False)
        return tf.ensure_shape(vector, (BUCKETS,)), hardness

    return encode


def main():
    keras.utils.set_random_seed(8)
    clues, hardness = invent_clues(10_000)
    ds = (tf.data.Dataset.from_tensor_slices((clues, hardness))
          .map(clue_features(), num_parallel_calls=2)
          .batch(128, drop_remainder=True)
          .prefetch(2))
    model = keras.Sequential([
        keras.layers.Input((BUCKETS,)),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(1),
    ])
    optimizer = keras.optimizers.RMSprop(1e-3)
    optimizer.build(model.trainable_variables)
    seen = keras.metrics.Mean()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(keras.losses.huber(y[:, None], model(x, training=True)))
        optimizer.apply(tape.gradient(error, model.trainable_variables))
        seen.update_state(error)

    for x, y in ds:
        step(x, y)
    print("huber", float(seen.result()))


main()
