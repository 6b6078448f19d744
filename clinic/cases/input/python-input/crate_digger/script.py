# BPR-style recommender for a record shop: user x album, sampled negatives.
import random
import time

import keras
import numpy as np
from keras import layers, ops

N_USERS, N_ALBUMS, N_NEG, BATCH = 400, 30000, 3, 256
keras.utils.set_random_seed(21)


def purchases():
    rng = np.random.default_rng(5)
    bought = {}
    for u in range(N_USERS):
        size = int(rng.integers(800, 2200))
        bought[u] = rng.choice(N_ALBUMS, size, replace=False).tolist()
    return bought


class Triples(keras.utils.PyDataset):
    def __init__(self, bought, steps, **kw):
        super().__init__(**kw)
        self.bought = bought
        self.steps = steps
        self.random = random.Random(9)

    def __len__(self):
        return self.steps

    def draw_negative(self, user):
        owned = self.bought[user]
        album = self.random.randrange(N_ALBUMS)
        while album in owned:
            album = self.random.randrange(N_ALBUMS)
        return album

    def __getitem__(self, index):
        users, pos, neg = [], [], []
        for _ in range(BATCH):
            u = self.random.randrange(N_USERS)
            users.append(u)
            pos.append(self.random.choice(self.bought[u]))
            neg.append([self.draw_negative(u) for _ in range(N_NEG)])
        x = (np.array(users)[:, None], np.array(pos)[:, None], np.array(neg))
        return x, np.zeros((BATCH, 1), "float32")


class Ranker(keras.Model):
    def __init__(self, width=24):
        super().__init__()
        self.user = layers.Embedding(N_USERS, width)
        self.album = layers.Embedding(N_ALBUMS, width)
        self.mix = layers.Dense(width, activation="tanh")

    def call(self, inputs):
        u, p, n = inputs
        u = self.mix(self.user(u))
        good = ops.sum(u * self.album(p), -1)
        bad = ops.sum(u * self.album(n), -1)
        return good - bad


def bpr(y_true, margin):
    return ops.mean(ops.softplus(-margin))


bought = purchases()
model = Ranker()
model.compile(optimizer=keras.optimizers.SGD(0.5), loss=bpr)
t0 = time.time()
model.fit(Triples(bought, 60), epochs=5, verbose=2)
print(f"done in {time.time() - t0:.2f}s")
