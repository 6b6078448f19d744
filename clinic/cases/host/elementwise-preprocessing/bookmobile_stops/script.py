"""Will a reader come back to the bookmobile's next stop? From the lending register (CSV)."""
import csv
import math
import os
import tempfile

import numpy as np
import keras
from keras import layers

READERS, STOPS, LOANS = 11_000, 52, 130_000
FIELDS = ["reader", "stop", "books", "late"]


def write_register(path):
    rng = np.random.default_rng(61)
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(FIELDS)
        rows = np.stack([rng.integers(0, READERS, LOANS), rng.integers(0, STOPS, LOANS),
                         rng.integers(1, 7, LOANS), rng.integers(0, 2, LOANS)], 1)
        out.writerows(rows.tolist())


def read_register(path):
    return np.loadtxt(path, delimiter=",", skiprows=1, dtype="int64")


def interest(mask, stop):
    """What was borrowed up to this stop, the older the less it counts."""
    total = 0.0
    for s in range(stop + 1):
        total += mask[s] * math.exp((s - stop) / 6.0)
    return total


def visit_features(register):
    """Per reader and stop: books, late returns, and a fading sum of earlier books."""
    books = np.zeros((READERS, STOPS))
    late = np.zeros((READERS, STOPS))
    for reader, stop, n, was_late in register:
        books[reader, stop] += n
        late[reader, stop] += was_late
    table = np.zeros((READERS, STOPS, 3), "float32")
    for reader in range(READERS):
        for stop in range(STOPS):
            table[reader, stop, 0] = books[reader, stop]
            table[reader, stop, 1] = late[reader, stop]
            table[reader, stop, 2] = interest(books[reader], stop)
    return table


def returns(table):
    return (table[:, -4:, 0].sum(1) > 0).astype("float32")


def build_model():
    seq = keras.Input((STOPS - 4, 3))
    x = layers.Conv1D(24, 5, activation="relu")(seq)
    x = layers.Conv1D(24, 5, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(seq, layers.Dense(1, activation="sigmoid")(x))


keras.utils.set_random_seed(61)
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "register.csv")
    write_register(path)
    register = read_register(path)
table = visit_features(register)
model = build_model()
model.compile("adam", "binary_crossentropy", metrics=["AUC"])
model.fit(table[:, :-4], returns(table), batch_size=128, epochs=2, verbose=2)
