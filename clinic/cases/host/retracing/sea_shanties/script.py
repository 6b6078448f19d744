"""Which crew sang it? A small transformer over syllables; verses are of all lengths and padded per batch."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(55)
VOCAB, DIM, CREWS, BATCH = 500, 32, 6, 32


class VerseBatches:
    """Sorted by length so that little padding is needed."""

    def __init__(self, verses, crews, batch):
        order = sorted(range(len(verses)), key=lambda i: len(verses[i]))
        self.groups = [order[i:i + batch] for i in range(0, len(order), batch)]
        self.verses, self.crews = verses, crews
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.groups)

    def __iter__(self):
        for g in self.rng.permutation(len(self.groups)):
            rows = self.groups[g]
            longest = max(len(self.verses[i]) for i in rows)
            ids = np.zeros((len(rows), longest), "int32")
            for r, i in enumerate(rows):
                ids[r, :len(self.verses[i])] = self.verses[i]
            yield tf.constant(ids), tf.constant(self.crews[rows])


class Block(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = layers.MultiHeadAttention(heads, dim // heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.up, self.down = layers.Dense(2 * dim, activation="relu"), layers.Dense(dim)

    def call(self, x, mask):
        x = self.n1(x + self.att(x, x, attention_mask=mask))
        return self.n2(x + self.down(self.up(x)))


class Shanty(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(VOCAB, DIM)
        self.blocks = [Block(DIM, 2) for _ in range(1)]
        self.out = layers.Dense(CREWS)

    def call(self, ids):
        here = tf.cast(ids > 0, tf.float32)
        x = self.words(ids)
        for b in self.blocks:
            x = b(x, here[:, None, :] > 0)
        x = tf.reduce_sum(x * here[..., None], 1) / tf.reduce_sum(here, 1, keepdims=True)
        return self.out(x)


rng = np.random.default_rng(55)
n = 35 * BATCH
crews = rng.integers(0, CREWS, n).astype("int32")
lengths = np.clip(rng.gamma(6.0, 4.0, n).astype(int), 8, 44)
verses = [1 + (rng.zipf(1.4, size=k) * (3 + c) % (VOCAB - 1)) for k, c in zip(lengths, crews)]

model = Shanty()
adam = tf.keras.optimizers.Adam(2e-3)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def fit_batch(ids, crew):
    with tf.GradientTape() as tape:
        loss = xent(crew, model(ids))
    w = model.trainable_weights
    adam.apply_gradients(zip(tape.gradient(loss, w), w))
    return loss


model(tf.ones((1, 8), tf.int32))
adam.build(model.trainable_weights)
batches = VerseBatches(verses, crews, BATCH)
start = time.time()
for epoch in range(2):
    losses = [fit_batch(ids, crew) for ids, crew in batches]
    print("epoch", epoch, "loss", float(tf.reduce_mean(losses)))
print("WORK", 2 * n)
print("TRAIN_SECONDS %.3f" % (time.time() - start))
