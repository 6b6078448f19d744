"""Triage level from short nursing notes: embedding, one convolution, max over time."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import keras
from keras import layers

VOCAB, LEVELS = 2000, 5


def write_notes(n=6000, seed=64):
    rng = np.random.default_rng(seed)
    level = rng.integers(0, LEVELS, n)
    words = np.clip(rng.gamma(4.0, 14.0, n), 6, 260).astype(int)
    notes = []
    for lv, count in zip(level, words):
        common = rng.integers(1, VOCAB, count)
        marked = rng.uniform(size=count) < 0.15
        common[marked] = 1 + lv * 40 + rng.integers(0, 40, marked.sum())
        notes.append(common)
    return notes, level


def pad(batch):
    longest = max(len(note) for note in batch)
    out = np.zeros((len(batch), longest), "int32")
    for row, note in enumerate(batch):
        out[row, :len(note)] = note
    return out


def batches(notes, level, size, steps, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        pick = rng.choice(len(notes), size, replace=False)
        yield (tf.constant(pad([notes[i] for i in pick])),
               tf.constant(level[pick], tf.int32))


class NoteNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(VOCAB, 64)
        self.conv = layers.Conv1D(96, 5, padding="same", activation="relu")
        self.pool = layers.GlobalMaxPooling1D()
        self.out = layers.Dense(LEVELS)

    def call(self, tokens):
        return self.out(self.pool(self.conv(self.embed(tokens))))


model = NoteNet()
optimizer = keras.optimizers.Adam(2e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(tokens, target):
    with tf.GradientTape() as tape:
        logits = model(tokens)
        loss = loss_fn(target, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    hit = tf.reduce_mean(tf.cast(tf.argmax(logits, -1, tf.int32) == target, tf.float32))
    return loss, hit


def main(steps=130, size=64):
    keras.utils.set_random_seed(64)
    notes, level = write_notes()
    model(tf.zeros((1, 8), tf.int32))
    optimizer.build(model.trainable_variables)
    start = time.time()
    hits = []
    for k, (tokens, target) in enumerate(batches(notes, level, size, steps, 1)):
        loss, hit = train_step(tokens, target)
        hits.append(hit)
        if k % 26 == 25:
            print(f"step {k + 1}: loss {loss:.3f}, accuracy {np.mean(hits[-26:]):.3f}")
    seconds = time.time() - start
    print("WORK", steps * size)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
