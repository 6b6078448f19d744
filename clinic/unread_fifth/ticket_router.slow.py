"""Route support tickets to a queue."""
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

TOKEN = re.compile(r"[a-z0-9']+")


@dataclass
class Config:
    n_tickets: int = 60000
    vocab_size: int = 8000
    max_len: int = 120
    emb: int = 64
    batch: int = 256
    epochs: int = 15
    n_queues: int = 12


def load_tickets(cfg):
    rng = np.random.default_rng(0)
    words = np.array(["w%d" % i for i in range(15000)])
    queue = rng.integers(0, cfg.n_queues, cfg.n_tickets)
    idx = (rng.zipf(1.3, size=(cfg.n_tickets, cfg.max_len)) + queue[:, None] * 37) % len(words)
    texts = [" ".join(row) for row in words[idx]]
    return texts, queue.astype("int32")


def build_vocab(texts, size):
    counts = Counter()
    for t in texts[:5000]:
        counts.update(TOKEN.findall(t.lower()))
    return [w for w, _ in counts.most_common(size - 2)]


def ticket_stream(texts, labels, vocab, cfg):
    index = {w: i + 2 for i, w in enumerate(vocab)}

    def gen():
        order = np.random.permutation(len(texts))
        for i in order:
            tokens = TOKEN.findall(texts[i].lower())[:cfg.max_len]
            ids = [index.get(tok, 1) for tok in tokens]
            ids = ids + [0] * (cfg.max_len - len(ids))
            yield np.array(ids, dtype="int64"), labels[i]

    return tf.data.Dataset.from_generator(
        gen,
        output_signature=(
            tf.TensorSpec((cfg.max_len,), tf.int64),
            tf.TensorSpec((), tf.int32),
        ),
    )


class TextCNN(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.emb = layers.Embedding(cfg.vocab_size, cfg.emb)
        self.convs = [layers.Conv1D(96, k, activation="relu") for k in (2, 3, 5)]
        self.pool = layers.GlobalMaxPooling1D()
        self.drop = layers.Dropout(0.4)
        self.head = layers.Dense(cfg.n_queues)

    def call(self, ids, training=False):
        e = self.emb(ids)
        h = tf.concat([self.pool(c(e)) for c in self.convs], axis=-1)
        return self.head(self.drop(h, training=training))


def train(cfg):
    texts, labels = load_tickets(cfg)
    vocab = build_vocab(texts, cfg.vocab_size)
    n_val = cfg.n_tickets // 20

    train_ds = ticket_stream(texts[n_val:], labels[n_val:], vocab, cfg)
    train_ds = train_ds.batch(cfg.batch).prefetch(tf.data.AUTOTUNE)
    val_ds = ticket_stream(texts[:n_val], labels[:n_val], vocab, cfg)
    val_ds = val_ds.batch(cfg.batch).prefetch(tf.data.AUTOTUNE)

    model = TextCNN(cfg)
    opt = keras.optimizers.Adam(1e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    tr_loss = keras.metrics.Mean()
    va_acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def step(ids, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(ids, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        tr_loss.update_state(loss)

    @tf.function
    def evaluate(ids, y):
        va_acc.update_state(y, model(ids, training=False))

    for epoch in range(cfg.epochs):
        tr_loss.reset_state()
        va_acc.reset_state()
        for ids, y in train_ds:
            step(ids, y)
        for ids, y in val_ds:
            evaluate(ids, y)
        print(f"{epoch}: loss {tr_loss.result():.4f} val acc {va_acc.result():.4f}")
    return model


if __name__ == "__main__":
    train(Config()).save_weights("router.weights.h5")
