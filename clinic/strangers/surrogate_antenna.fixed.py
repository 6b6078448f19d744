"""Antenna shape search: a genetic search guided by a network that learns the costly simulator as it goes."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
from tensorflow import keras

GENES = 18
rng = np.random.default_rng(3)
mixing = rng.normal(size=(GENES, 5))


def simulate(shape):
    """Stands in for the field solver: gain of one shape."""
    z = np.tanh(shape @ mixing)
    return float(np.sin(2 * z).sum(-1) - 0.1 * np.square(shape).sum(-1))


class Surrogate(keras.Model):
    def __init__(self):
        super().__init__()
        self.trunk = [keras.layers.Dense(96, activation="silu") for _ in range(3)]
        self.gain = keras.layers.Dense(1)

    def call(self, x):
        for d in self.trunk:
            x = d(x)
        return self.gain(x)


class Search:
    def __init__(self, population=16):
        self.pop = [rng.normal(size=GENES) for _ in range(population)]
        self.net = Surrogate()
        self.net.compile(optimizer=keras.optimizers.Adam(3e-3), loss="huber")
        self.memory_x, self.memory_y = [], []

    def probe(self, shapes):
        for s in shapes:
            self.memory_x.append(s)
            self.memory_y.append(simulate(s))

    def study(self, rounds=12, size=64):
        x, y = np.asarray(self.memory_x, "float32"), np.asarray(self.memory_y, "float32")
        for _ in range(rounds):
            pick = rng.integers(0, len(x), size)
            loss = self.net.train_on_batch(x[pick], y[pick][:, None])
        return float(loss)

    def promise(self, shapes):
        return self.net.predict_on_batch(np.asarray(shapes, "float32"))[:, 0]

    def breed(self, n):
        a, b = rng.integers(0, len(self.pop), (2, n))
        mask = rng.random((n, GENES)) < 0.5
        kids = np.where(mask, np.stack(self.pop)[a], np.stack(self.pop)[b])
        return list(kids + rng.normal(scale=0.2, size=kids.shape))

    def generation(self):
        kids = self.breed(12)
        ranked = [kids[i] for i in np.argsort(-self.promise(kids))]
        self.probe(ranked[:4])
        loss = self.study()
        best = np.argsort(self.memory_y)[::-1][:len(self.pop)]
        self.pop = [self.memory_x[i] for i in best]
        return loss, self.memory_y[best[0]]


s = Search()
s.probe(s.pop)
s.study()
for g in range(14):
    loss, top = s.generation()
    print(f"gen {g:2d}  surrogate loss {loss:.4f}  best gain {top:.3f}")
