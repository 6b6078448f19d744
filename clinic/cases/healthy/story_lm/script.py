"""Character language model: two pre-norm transformer blocks, tf.function step, windows cut by tf.data."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

SEQ, VOCAB, DIM, BATCH = 96, 64, 192, 20


def text(n):
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.integers(-2, 3, n)) % VOCAB
    return walk.astype("uint8")


def windows(ids):
    chunks = ids[: len(ids) // (SEQ + 1) * (SEQ + 1)].reshape(-1, SEQ + 1)
    ds = tf.data.Dataset.from_tensor_slices(chunks).shuffle(len(chunks)).repeat().batch(BATCH, drop_remainder=True)
    return ds.map(lambda c: (tf.cast(c[:, :-1], tf.int32), tf.cast(c[:, 1:], tf.int32)),
                  num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()
        self.att = keras.layers.MultiHeadAttention(6, DIM // 6)
        self.f1, self.f2 = keras.layers.Dense(4 * DIM, activation="gelu"), keras.layers.Dense(DIM)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, use_causal_mask=True)
        return x + self.f2(self.f1(self.n2(x)))


class LM(keras.Model):
    def __init__(self):
        super().__init__()
        self.tok = keras.layers.Embedding(VOCAB, DIM)
        self.pos = keras.layers.Embedding(SEQ, DIM)
        self.blocks = [Block() for _ in range(2)]
        self.norm, self.head = keras.layers.LayerNormalization(), keras.layers.Dense(VOCAB)

    def call(self, ids):
        x = self.tok(ids) + self.pos(tf.range(SEQ))
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


def main():
    model = LM()
    model(tf.zeros((1, SEQ), tf.int32))
    opt = keras.optimizers.AdamW(3e-4, weight_decay=0.01)
    opt.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    t0 = time.perf_counter()
    for i, (x, y) in enumerate(windows(text(600_000)).take(64), 1):
        loss = step(x, y)
        if i % 16 == 0:
            print(f"{i:4d}  {float(loss):.3f}  {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
