"""Federated averaging across regional branches of a bank (simulated on one box)."""
import time

import keras
import numpy as np

FEATURES = 40


class Branch:
    def __init__(self, number, rows=768):
        g = np.random.default_rng(100 + number)
        self.x = g.normal(number * 0.02, 1.0, (rows, FEATURES)).astype("float32")
        w = np.random.default_rng(1).normal(size=FEATURES)
        self.y = (self.x @ w + g.normal(size=rows) > 0).astype("float32")

    def __len__(self):
        return len(self.x)


def scorecard():
    return keras.Sequential([
        keras.Input((FEATURES,)),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])


class HeadOffice:
    def __init__(self, branches, lr=0.05, batch=32):
        self.branches, self.lr, self.batch = branches, lr, batch
        self.shared = scorecard()
        self.seen = 0

    def local_copy(self):
        desk = keras.models.clone_model(self.shared)
        desk.set_weights(self.shared.get_weights())
        desk.compile(keras.optimizers.SGD(self.lr), "binary_crossentropy")
        return desk

    def visit(self, branch):
        desk = self.local_copy()
        desk.fit(branch.x, branch.y, batch_size=self.batch, epochs=1, verbose=0)
        self.seen += len(branch)
        return desk.get_weights()

    def quarter(self):
        returned = [self.visit(b) for b in self.branches]
        share = np.array([len(b) for b in self.branches], "float32")
        share /= share.sum()
        self.shared.set_weights([
            sum(s * w for s, w in zip(share, layer)) for layer in zip(*returned)])


if __name__ == "__main__":
    office = HeadOffice([Branch(k) for k in range(8)])
    office.visit(office.branches[0])
    office.seen = 0
    tick = time.perf_counter()
    for q in range(8):
        office.quarter()
        print("quarter", q, "done")
    tock = time.perf_counter()
    print("WORK", office.seen)
    print("TRAIN_SECONDS", round(tock - tick, 3))
