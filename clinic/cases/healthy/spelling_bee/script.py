"""A transformer block over words; the whole word list is shuffled as indices."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(5)
WORDS, WIDTH = 200_000, 24
LIST = tf.constant(np.random.default_rng(5).integers(1, 27, (WORDS, WIDTH)).astype("uint8"))


def pick(ids):
    letters = tf.cast(tf.gather(LIST, ids), tf.int32)
    return letters[:, :-1], letters[:, 1:]


words = (tf.data.Dataset.range(WORDS).shuffle(50_000, seed=5).repeat()
         .batch(128).map(pick, num_parallel_calls=2).prefetch(2))


def speller():
    inp = keras.Input((WIDTH - 1,), dtype="int32")
    x = layers.Embedding(27, 96)(inp)
    a = layers.MultiHeadAttention(4, 24)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + a)
    f = layers.Dense(96)(layers.Dense(384, activation="gelu")(x))
    x = layers.LayerNormalization()(x + f)
    return keras.Model(inp, layers.Dense(27)(x))


model = speller()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(words, steps_per_epoch=60, epochs=2, verbose=2)
