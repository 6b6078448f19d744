"""Sort letters to an insurer into claims, complaints and the rest."""
import time

import numpy as np
import tensorflow as tf

T0 = time.time()
tf.keras.utils.set_random_seed(90)
rng = np.random.default_rng(90)
VOCAB = ["".join(rng.choice(list("aeiourstlnmdc"), 6)) for _ in range(9000)]
topics = rng.integers(0, 3, 2000)
raw = rng.integers(0, 3000, (2000, 40)) + topics[:, None] * 3000 * (rng.random((2000, 40)) < .3)
letters = [[VOCAB[j] for j in row] for row in raw]
dictionary = sorted(set(VOCAB))


def number(word):
    if word in dictionary:
        return dictionary.index(word) + 1
    return 0


def encode(letters):
    table = np.zeros((len(letters), 40), "int32")
    for i, letter in enumerate(letters):
        for j, word in enumerate(letter):
            table[i, j] = number(word)
    return table


x = encode(letters)
model = tf.keras.Sequential([
    tf.keras.layers.Input((40,)),
    tf.keras.layers.Embedding(len(dictionary) + 1, 24),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(3, activation="softmax")])
model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
T1 = time.time()
model.fit(x, topics, batch_size=32, epochs=4, verbose=2)
print(f"letters {T1 - T0:.1f} s, fit {time.time() - T1:.1f} s, all {time.time() - T0:.2f} s")
