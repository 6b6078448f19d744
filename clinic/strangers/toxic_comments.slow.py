# Comment classifier: small attention encoder over byte-pair ids, custom loop, one pass over a stream of comments.
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

VOCAB, WIDTH, BATCH = 4000, 48, 16
rng = np.random.default_rng(5)


def comment_stream(n):
    """Comments arrive in threads; those of a thread are of about the same length."""
    for _ in range(n):
        centre = rng.integers(18, 90)
        lengths = np.maximum(6, rng.normal(centre, 4, size=BATCH).astype(int))
        label = rng.integers(0, 2, size=BATCH)
        comments = []
        for n_tok, y in zip(lengths, label):
            ids = rng.integers(2, VOCAB, size=n_tok)
            if y:
                ids[rng.integers(0, n_tok, size=2)] = 7
            comments.append(ids)
        yield comments, label


def collate(comments, label):
    width = max(len(c) for c in comments)
    out = np.zeros((len(comments), width), "int32")
    for row, c in zip(out, comments):
        row[: len(c)] = c
    return tf.constant(out), tf.constant(label, tf.float32)


class Encoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = layers.Embedding(VOCAB, WIDTH)
        self.att = layers.MultiHeadAttention(4, WIDTH // 4)
        self.ln1, self.ln2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.ff1, self.ff2 = layers.Dense(2 * WIDTH, "gelu"), layers.Dense(WIDTH)
        self.head = layers.Dense(1)

    def call(self, ids):
        mask = tf.cast(ids > 0, tf.float32)
        x = self.emb(ids)
        x = self.ln1(x + self.att(x, x, attention_mask=mask[:, None, :] > 0))
        x = self.ln2(x + self.ff2(self.ff1(x)))
        pooled = tf.reduce_sum(x * mask[..., None], 1) / tf.reduce_sum(mask, 1, keepdims=True)
        return self.head(pooled)[:, 0]


model = Encoder()
model(tf.ones((2, 8), tf.int32))
opt = keras.optimizers.SGD(0.1)
opt.build(model.trainable_variables)


@tf.function
def train_step(ids, y):
    with tf.GradientTape() as tape:
        logit = model(ids)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


start = time.perf_counter()
running = []
for step, (comments, label) in enumerate(comment_stream(64)):
    ids, y = collate(comments, label)
    running.append(train_step(ids, y))
    if step % 20 == 19:
        print(f"{step + 1:4d} loss {np.mean([float(v) for v in running]):.4f}  {time.perf_counter() - start:.1f}s")
        running.clear()
