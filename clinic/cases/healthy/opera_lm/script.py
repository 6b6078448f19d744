"""Character language model on made-up libretti: a two-block causal transformer."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

CHARS, CONTEXT, WIDTH, HEADS = 40, 96, 128, 4


def libretto(n, seed=2):
    r = np.random.default_rng(seed)
    words = [r.integers(1, CHARS, r.integers(2, 8)) for _ in range(300)]
    picks = r.zipf(1.4, n // 4) % 300
    return np.concatenate([np.append(words[p], 0) for p in picks])[:n].astype("int32")


class Block(layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.att = layers.MultiHeadAttention(heads, width // heads)
        self.up, self.down = layers.Dense(4 * width, activation="relu"), layers.Dense(width)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, use_causal_mask=True)
        return x + self.down(self.up(self.n2(x)))


def language_model():
    t = keras.Input((CONTEXT,), dtype="int32")
    pos = layers.Embedding(CONTEXT, WIDTH)(ops.arange(CONTEXT))
    h = layers.Embedding(CHARS, WIDTH)(t) + pos
    for _ in range(2):
        h = Block(WIDTH, HEADS)(h)
    return keras.Model(t, layers.Dense(CHARS)(layers.LayerNormalization()(h)))


def windows(text, batch):
    ds = tf.data.Dataset.from_tensor_slices(text).batch(CONTEXT + 1, drop_remainder=True)
    ds = ds.map(lambda w: (w[:-1], w[1:]), num_parallel_calls=tf.data.AUTOTUNE).cache()
    return ds.shuffle(4000, seed=0).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    model = language_model()
    model.compile(keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(windows(libretto((CONTEXT + 1) * 1024), 32), epochs=2, verbose=2)


main()
