"""Carpet motifs as sequences of knots: a small transformer with a loop of its own."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

KNOTS, LENGTH, CLASSES = 32, 48, 6


class Block(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.attend = layers.MultiHeadAttention(heads, dim // heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.mlp = keras.Sequential([layers.Dense(2 * dim, activation="gelu"), layers.Dense(dim)])

    def call(self, x):
        h = self.n1(x)
        x = x + self.attend(h, h)
        return x + self.mlp(self.n2(x))


def carpets(n, seed=10):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, CLASSES, n)
    period = kind + 3
    knots = (np.arange(LENGTH)[None] % period[:, None]) * 3 + rng.integers(0, 4, (n, LENGTH))
    return (knots % KNOTS).astype("int32"), kind.astype("int32")


class Weaver:
    def __init__(self, dim=96, depth=2):
        inp = keras.Input((LENGTH,), dtype="int32")
        x = layers.Embedding(KNOTS, dim)(inp)
        for _ in range(depth):
            x = Block(dim, 4)(x)
        x = layers.GlobalAveragePooling1D()(x)
        self.model = keras.Model(inp, layers.Dense(CLASSES)(x))
        self.opt = keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, 100))
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, norm = tf.clip_by_global_norm(grads, 1.0)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, norm

    def fit(self, ds):
        recent = []
        for n, (x, y) in enumerate(ds, start=1):
            loss, norm = self.step(x, y)
            recent.append(loss)
            if n % 25 == 0:
                print(f"{n:4d}  loss {float(tf.add_n(recent)) / 25:.4f}  norm {float(norm):.2f}")
                recent.clear()


keras.utils.set_random_seed(10)
x, y = carpets(64 * 25)
data = (tf.data.Dataset.from_tensor_slices((x, y))
        .cache().shuffle(1600).repeat(4).batch(64, drop_remainder=True).prefetch(2))
begin = time.time()
Weaver().fit(data)
print(f"woven in {time.time() - begin:.1f} s")
