"""Two-tower playlist recommender with sampled negatives (user history -> next track)."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import random
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
USERS, TRACKS = (400, 2000) if SMALL else (40_000, 120_000)
HIST, NEG, DIM = 24, 8, 128
BATCH = 64 if SMALL else 2048
STEPS, EPOCHS = (6, 2) if SMALL else (90, 3)

rng = np.random.default_rng(7)
listens = rng.zipf(1.25, size=(USERS, 64)) % TRACKS
library = [row.tolist() for row in listens]
owned = [set(row) for row in library]


class Plays(keras.utils.PyDataset):
    """(history, candidates) -> which of the 1 + NEG candidates was played next."""

    def __init__(self):
        super().__init__()
        self.rand = random.Random(11)

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        history, candidates = [], []
        for _ in range(BATCH):
            user = self.rand.randrange(USERS)
            plays = library[user]
            at = self.rand.randrange(1, len(plays))
            past = plays[max(0, at - HIST):at]
            past = [0] * (HIST - len(past)) + past
            row = [plays[at]]
            while len(row) < 1 + NEG:
                track = self.rand.randrange(TRACKS)
                if track not in owned[user]:
                    row.append(track)
            history.append(past)
            candidates.append(row)
        x = {"history": np.array(history, "int32"), "candidates": np.array(candidates, "int32")}
        return x, np.zeros(BATCH, "int32")


def build():
    history = keras.Input((HIST,), dtype="int32", name="history")
    candidates = keras.Input((1 + NEG,), dtype="int32", name="candidates")
    table = layers.Embedding(TRACKS, DIM)
    user = layers.GlobalAveragePooling1D()(table(history))
    user = layers.Dense(256, activation="relu")(user)
    user = layers.Dense(DIM)(user)
    score = layers.Dot(axes=(2, 1))([table(candidates), user])
    return keras.Model({"history": history, "candidates": candidates}, score)


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.first, self.n = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        self.last = time.perf_counter()


model = build()
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
clock = Clock()
model.fit(Plays(), epochs=EPOCHS, verbose=2, callbacks=[clock])
print(f"steady_ms={(clock.last - clock.first) / clock.n * 1e3:.3f}")
