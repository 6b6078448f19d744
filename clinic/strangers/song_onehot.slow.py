"""Genre tags of songs from their lyric tokens, bag of weighted words."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(71)
rng = np.random.default_rng(71)

WORDS, TOKENS, GENRES = 12000, 24, 10

genre = rng.integers(0, GENRES, 3200)
common = rng.zipf(1.3, (3200, TOKENS)) % 2000
typical = 2000 + genre[:, None] * 1000 + rng.integers(0, 1000, (3200, TOKENS))
lyrics = np.where(rng.random((3200, TOKENS)) < 0.4, typical, common).astype("int32")


class LyricEncoder(tf.keras.layers.Layer):
    def __init__(self, words, dim):
        super().__init__()
        self.words = words
        self.dim = dim

    def build(self, input_shape):
        self.table = self.add_weight(shape=(self.words, self.dim), initializer="uniform", name="table")
        self.gate = self.add_weight(shape=(self.words, 1), initializer="zeros", name="gate")

    def call(self, tokens):
        encoded = tf.one_hot(tokens, self.words)
        vectors = tf.einsum("btw,wd->btd", encoded, self.table)
        scores = tf.einsum("btw,wo->bto", encoded, self.gate)
        return tf.reduce_sum(tf.nn.softmax(scores, axis=1) * vectors, axis=1)


model = tf.keras.Sequential([
    tf.keras.layers.Input((TOKENS,), dtype="int32"),
    LyricEncoder(WORDS, 32),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(GENRES),
])
model.compile(
    optimizer=tf.keras.optimizers.SGD(0.5, momentum=0.9),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

train = tf.data.Dataset.from_tensor_slices((lyrics, genre)).cache().shuffle(3200, seed=1)
train = train.batch(32).prefetch(2)
model.fit(train, epochs=3, verbose=2)
