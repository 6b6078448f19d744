"""Character language model: a small causal transformer and its own loop."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf

VOCAB = 64


class Block(keras.layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = keras.layers.MultiHeadAttention(heads, dim // heads)
        self.n1 = keras.layers.LayerNormalization()
        self.n2 = keras.layers.LayerNormalization()
        self.up = keras.layers.Dense(4 * dim, activation="gelu")
        self.down = keras.layers.Dense(dim)

    def call(self, x):
        n = self.n1(x)
        x = x + self.att(n, n, use_causal_mask=True)
        return x + self.down(self.up(self.n2(x)))


class CharLM(keras.Model):
    def __init__(self, dim=256, depth=3, heads=4, length=96):
        super().__init__()
        self.tok = keras.layers.Embedding(VOCAB, dim)
        self.pos = keras.layers.Embedding(length, dim)
        self.blocks = [Block(dim, heads) for _ in range(depth)]
        self.head = keras.layers.Dense(VOCAB)

    def call(self, t):
        h = self.tok(t) + self.pos(tf.range(tf.shape(t)[1]))
        for b in self.blocks:
            h = b(h)
        return self.head(h)


def text(n):
    rng = np.random.default_rng(14)
    steps = rng.integers(-2, 3, n)
    return (np.cumsum(steps) % VOCAB).astype("int32")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--length", type=int, default=96)
    a = ap.parse_args()
    keras.utils.set_random_seed(1)
    ds = tf.data.Dataset.from_tensor_slices(text(200_000))
    ds = ds.batch(a.length + 1, drop_remainder=True).cache().shuffle(2000).repeat()
    ds = ds.batch(a.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = CharLM(length=a.length)
    model(tf.zeros((1, a.length), tf.int32))
    opt = keras.optimizers.AdamW(3e-4)
    opt.build(model.trainable_variables)
    ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(chunk):
        with tf.GradientTape() as tape:
            loss = ce(chunk[:, 1:], model(chunk[:, :-1], training=True))
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    begin = time.time()
    for i, chunk in enumerate(ds.take(a.steps), 1):
        loss = step(chunk)
        if i % 20 == 0:
            print(f"{i:4d} loss {float(loss):.3f} {time.time() - begin:.0f}s")
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
