"""Siamese embedding of songs with a triplet loss and a running list of hard triplets."""
import collections

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(40)
DIM, BATCH = 128, 768


def make_songs(n=20000):
    rng = np.random.default_rng(40)
    centre = rng.normal(size=(50, DIM))
    artist = rng.integers(0, 50, n)
    return (centre[artist] + rng.normal(size=(n, DIM))).astype("float32"), artist


def triplets():
    songs, artist = make_songs()
    order = np.argsort(artist, kind="stable")
    songs = songs[order]
    rng = np.random.default_rng(1)
    a = rng.integers(0, len(songs) - 1, 60 * BATCH)
    trio = (songs[a], songs[a + 1], songs[rng.permutation(a)])
    return tf.data.Dataset.from_tensor_slices(trio).batch(BATCH).prefetch(2)


class HardList:
    def __init__(self):
        self.worst = collections.deque(maxlen=200)
        self.seen = 0

    def note(self, margins):
        for value in margins:
            value = float(value)
            self.seen += 1
            if value > 0.3:
                self.worst.append((self.seen, value))


tower = keras.Sequential([keras.Input((DIM,)), keras.layers.Dense(96, activation="tanh"),
                          keras.layers.Dense(32), keras.layers.UnitNormalization()])
opt = keras.optimizers.Adam(1e-3)
opt.build(tower.trainable_variables)


@tf.function
def train(anchor, same, other):
    with tf.GradientTape() as tape:
        e, p, n = tower(anchor), tower(same), tower(other)
        margin = tf.reduce_sum((e - p) ** 2, -1) - tf.reduce_sum((e - n) ** 2, -1) + 0.2
        loss = tf.reduce_mean(tf.nn.relu(margin))
    opt.apply(tape.gradient(loss, tower.trainable_variables), tower.trainable_variables)
    return loss, margin


hard = HardList()
for epoch in range(2):
    for trio in triplets():
        loss, margin = train(*trio)
        hard.note(margin)
    print(f"epoch {epoch}: loss {float(loss):.4f}, hard {len(hard.worst)}")
