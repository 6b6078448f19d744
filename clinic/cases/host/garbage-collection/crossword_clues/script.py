"""Difficulty of crossword clues, from hashed character trigrams of clue and answer."""
import gc
import time
from collections import Counter
import numpy as np
import keras
from keras import layers

FEATURES = 1024
BATCH = 512
STEPS_PER_EPOCH, EPOCHS = 45, 3


class Clue:
    __slots__ = ("text", "answer", "day")

    def __init__(self, text, answer, day):
        self.text, self.answer, self.day = text, answer, day


def compose(n, rng):
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, k)) for k in rng.integers(3, 9, 3000)]
    picks = rng.integers(0, len(words), (n, 4)).tolist()
    days = rng.integers(0, 7, n).tolist()
    return [Clue([words[a], words[b], words[c]], (words[d], len(words[d])), day)
            for (a, b, c, d), day in zip(picks, days)]


def vectors(clues, n, rng):
    x = np.zeros((n, FEATURES), "float32")
    y = np.zeros((n, 1), "float32")
    for i in range(n):
        clue = clues[int(rng.integers(0, len(clues)))]
        word, size = clue.answer
        for part in clue.text + [word]:
            for j in range(len(part) - 2):
                x[i, hash(part[j:j + 3]) % FEATURES] += 1.0
        y[i, 0] = clue.day / 7 + size / 20
    return x, y


class MemoryKeeper(keras.callbacks.Callback):
    """The notebook kept being killed; free what is left over while training."""

    def __init__(self, every):
        super().__init__()
        self.every = every
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every == 0:
            gc.collect()


def regressor():
    return keras.Sequential([
        keras.Input((FEATURES,)),
        layers.Dense(768, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(1),
    ])


rng = np.random.default_rng(42)
archive = compose(250_000, rng)
by_day = Counter(c.day for c in archive)
x, y = vectors(archive, 5120, rng)
print(len(archive), "clues", dict(by_day))

model = regressor()
model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
pick = np.resize(np.arange(len(x)), STEPS_PER_EPOCH * BATCH)
x, y = x[pick], y[pick]

t0 = time.perf_counter()
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[MemoryKeeper(every=4)])
seconds = time.perf_counter() - t0
print("WORK", STEPS_PER_EPOCH * EPOCHS * BATCH)
print("TRAIN_SECONDS %.3f" % seconds)
