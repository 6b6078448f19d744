"""Which family does a crochet chart belong to? Charts come as text, one symbol a stitch.

    x single   T double   o chain   V increase   A decrease   . empty
"""
import math

import numpy as np
import keras
from keras import layers, ops

SYMBOLS = "xToVA."
ROWS, COLS = 36, 36


def make_pattern_book(n, seed=31):
    rng = np.random.default_rng(seed)
    alphabet = np.array(list(SYMBOLS))
    book, family = [], []
    for _ in range(n):
        kind = int(rng.integers(4))
        weights = np.ones(6)
        weights[kind] += 0.8
        grid = rng.choice(alphabet, size=(ROWS, COLS), p=weights / weights.sum())
        book.append("\n".join("".join(r) for r in grid))
        family.append(kind)
    return book, np.array(family, "int32")


class Chart:
    """A chart parsed from its text."""

    def __init__(self, text):
        self.lines = text.split("\n")

    def row_codes(self, line):
        return [self._one_hot(symbol) for symbol in line]

    def _one_hot(self, symbol):
        code = [0.0] * len(SYMBOLS)
        code[SYMBOLS.index(symbol)] = 1.0
        return code

    def planes(self):
        return np.array([self.row_codes(line) for line in self.lines], "float32")


class PatternBook(keras.utils.PyDataset):
    def __init__(self, book, family, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.book, self.family, self.batch_size = book, family, batch_size
        self.order = np.arange(len(book))
        self.rng = np.random.default_rng(8)

    def __len__(self):
        return math.ceil(len(self.book) / self.batch_size)

    def __getitem__(self, idx):
        pick = self.order[idx * self.batch_size:(idx + 1) * self.batch_size]
        x = np.stack([Chart(self.book[i]).planes() for i in pick])
        return x, self.family[pick]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def stitch_net():
    inputs = keras.Input((ROWS, COLS, len(SYMBOLS)))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.SeparableConv2D(24, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(4)(x))


keras.utils.set_random_seed(31)
book, family = make_pattern_book(960)
model = stitch_net()
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(PatternBook(book, family, 32), epochs=6, verbose=2)
