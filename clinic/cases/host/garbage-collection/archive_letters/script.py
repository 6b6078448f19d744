"""Dating of archive letters: catalogue cards in memory, a bag-of-features regressor beside them."""
import gc
import random
import time

import keras
import numpy as np


class Card:
    def __init__(self, no, year, places):
        self.no, self.year, self.places = no, year, places
        self.links = []


def catalogue(n):
    rnd = random.Random(1)
    cards = [Card(i, rnd.randint(1600, 1900), [rnd.randint(0, 300) for _ in range(3)]) for i in range(n)]
    for c in cards:
        c.links.append(cards[rnd.randrange(n)])
    return cards


def features(cards):
    places = np.array([c.places for c in cards])
    linked = np.array([c.links[0].year for c in cards])
    x = np.zeros((len(cards), 302), "float32")
    for j in range(3):
        np.add.at(x, (np.arange(len(cards)), places[:, j]), 1.0)
    x[:, 301] = (linked - 1750) / 100.0
    y = np.array([(c.year - 1750) / 100.0 for c in cards], "float32")
    return x, y


class KeepMemoryLow(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.freed = 0

    def on_train_batch_end(self, batch, logs=None):
        self.freed += gc.collect()

    def on_epoch_end(self, epoch, logs=None):
        print("  epoch", epoch, "objects freed so far", self.freed)


class LetterDater(keras.Model):
    def __init__(self):
        super().__init__()
        self.h1 = keras.layers.Dense(192, activation="swish")
        self.h2 = keras.layers.Dense(96, activation="swish")
        self.year = keras.layers.Dense(1)

    def call(self, x):
        return self.year(self.h2(self.h1(x)))[:, 0]


if __name__ == "__main__":
    cards = catalogue(25000)
    x, y = features(cards)
    model = LetterDater()
    model.compile(optimizer="adam", loss="mae")
    t0 = time.perf_counter()
    model.fit(x[:9600], y[:9600], batch_size=256, epochs=2, verbose=2, callbacks=[KeepMemoryLow()])
    t = time.perf_counter() - t0
    print("oldest", min(c.year for c in cards))
    print("WORK", 9600 * 2)
    print("TRAIN_SECONDS %.2f" % t)
