"""Routes support tickets to a team: hashed bag of words and bigrams, a two-layer network."""
import re
import zlib

import numpy as np
from tensorflow import keras

BUCKETS, TEAMS, BATCH = 4096, 6, 96
WORD = re.compile(r"[a-z']+")


def corpus(n=6000, seed=13):
    rng = np.random.default_rng(seed)
    syll = ["re", "fund", "log", "in", "card", "ship", "late", "net", "slow", "app", "bill", "crash"]
    vocab = ["".join(rng.choice(syll, rng.integers(1, 4))) for _ in range(1200)]
    team = rng.integers(0, TEAMS, n)
    tickets = []
    for k in team:
        ids = np.where(rng.random(70) < 0.4, rng.integers(0, 200, 70) + 200 * k, rng.integers(0, 1200, 70))
        tickets.append(" ".join(vocab[i].capitalize() if i % 9 == 0 else vocab[i] for i in ids) + ".")
    return tickets, team


def vectorise(text):
    v = np.zeros(BUCKETS, "float32")
    words = WORD.findall(text.lower())
    for w in words:
        v[zlib.crc32(w.encode()) % BUCKETS] += 1.0
    for a, b in zip(words, words[1:]):
        v[zlib.crc32(f"{a} {b}".encode()) % BUCKETS] += 1.0
    return np.log1p(v)


def batches(tickets, team, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.choice(len(tickets), BATCH, replace=False)
        yield np.stack([vectorise(tickets[i]) for i in rows]), team[rows]


tickets, team = corpus()
model = keras.Sequential([keras.layers.Input((BUCKETS,)),
                          keras.layers.Dense(32, activation="relu"),
                          keras.layers.Dropout(0.3),
                          keras.layers.Dense(TEAMS, activation="softmax")])
model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(batches(tickets, team), steps_per_epoch=6000 // BATCH, epochs=9, verbose=2)
