import os
import random
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

VOCAB, LENGTH, TOPICS = 4000, 200, 12
PAD, BLANK = 0, 1


def make_corpus(n, seed=0):
    g = np.random.default_rng(seed)
    topic = g.integers(0, TOPICS, n)
    ids = g.integers(2, VOCAB, (n, LENGTH))
    hint = 2 + topic[:, None] * 40 + g.integers(0, 40, (n, LENGTH))
    ids = np.where(g.random((n, LENGTH)) < 0.12, hint, ids)
    return ids.astype("int32"), topic.astype("int32")


def make_thesaurus(seed=1):
    g = np.random.default_rng(seed)
    return {w: g.integers(2, VOCAB, 4).tolist() for w in range(VOCAB)}


class Telegram:
    """Imitates a bad line: words get lost, become illegible or are replaced by a synonym."""

    def __init__(self, thesaurus, lost=0.1, illegible=0.1, swapped=0.5, seed=2):
        self.thesaurus = thesaurus
        self.cuts = (lost, lost + illegible, lost + illegible + swapped)
        self.dice = random.Random(seed)

    def send(self, words):
        a, b, c = self.cuts
        arrived = []
        for w in words:
            u = self.dice.random()
            if u < a:
                continue
            if u < b:
                arrived.append(BLANK)
            elif u < c:
                arrived.append(self.dice.choice(self.thesaurus[int(w)]))
            else:
                arrived.append(int(w))
        arrived.extend([PAD] * (len(words) - len(arrived)))
        return arrived

    def send_all(self, rows):
        return np.array([self.send(r) for r in rows], dtype="int32")


class Newsroom(keras.utils.PyDataset):
    def __init__(self, ids, topic, line, batch=128, **kw):
        super().__init__(**kw)
        self.ids, self.topic, self.line, self.batch = ids, topic, line, batch

    def __len__(self):
        return len(self.ids) // self.batch

    def __getitem__(self, k):
        rows = slice(k * self.batch, (k + 1) * self.batch)
        return self.line.send_all(self.ids[rows]), self.topic[rows]


def build():
    return keras.Sequential([
        keras.Input((LENGTH,), dtype="int32"),
        keras.layers.Embedding(VOCAB, 16),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(64, activation="gelu"),
        keras.layers.Dense(TOPICS, activation="softmax"),
    ])


if __name__ == "__main__":
    ids, topic = make_corpus(12_800)
    feed = Newsroom(ids, topic, Telegram(make_thesaurus()))
    model = build()
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(Newsroom(ids[:512], topic[:512], feed.line), epochs=1, verbose=0)
    t = time.perf_counter()
    model.fit(feed, epochs=7, verbose=2)
    t = time.perf_counter() - t
    print("WORK", 7 * len(feed) * feed.batch)
    print(f"TRAIN_SECONDS {t:.3f}")
