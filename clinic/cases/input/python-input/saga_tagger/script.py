"""Part-of-speech tags for the words of old sagas, from their spelling."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

rng = np.random.default_rng(3)
RUNES = list("abdefghiklmnoprstuvyz")
SYLLABLES = ["".join(rng.choice(RUNES, size=rng.integers(2, 5))) for _ in range(300)]
WORDS = ["".join(rng.choice(SYLLABLES, size=rng.integers(1, 4))) for _ in range(5000)]
TAG_OF = {w: len(w) % 6 for w in WORDS}
SENTENCES = [" ".join(rng.choice(WORDS, size=24)) for _ in range(3000)]
TRIGRAMS = 4096
BATCH = 64


def trigrams(word):
    padded = "<" + word + ">"
    return [padded[i:i + 3] for i in range(len(padded) - 2)]


def bucket(gram):
    value = 7
    for c in gram:
        value = (value * 31 + ord(c)) % 1_000_003
    return value % TRIGRAMS


def spell(sentence):
    words = sentence.split(" ")
    x = np.zeros((len(words), 16), "int32")
    for r, w in enumerate(words):
        ids = [bucket(g) for g in trigrams(w)][:16]
        x[r, :len(ids)] = ids
    return x, np.array([TAG_OF[w] for w in words], "int32")


def reader():
    order = np.random.default_rng(0)
    while True:
        picked = order.integers(0, len(SENTENCES), BATCH)
        pairs = [spell(SENTENCES[i]) for i in picked]
        yield np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])


signature = (tf.TensorSpec((BATCH, 24, 16), tf.int32), tf.TensorSpec((BATCH, 24), tf.int32))
data = tf.data.Dataset.from_generator(reader, output_signature=signature).prefetch(4)

keras.utils.set_random_seed(1)
chars = keras.Input((24, 16), dtype="int32")
h = keras.layers.Embedding(TRIGRAMS, 16)(chars)
h = keras.layers.Lambda(lambda t: tf.reduce_sum(t, axis=2), output_shape=(24, 16))(h)
h = keras.layers.Conv1D(32, 3, padding="same", activation="relu")(h)
out = keras.layers.Dense(6)(h)
model = keras.Model(chars, out)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
start = time.time()
history = model.fit(data, steps_per_epoch=100, epochs=5, verbose=2)
print(f"{time.time() - start:.2f} s for 500 steps")
