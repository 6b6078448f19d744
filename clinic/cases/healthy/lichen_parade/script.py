"""Growth classes of lichens, train_on_batch loop; scores are kept in double on the host."""
import time
import numpy as np
from tensorflow import keras


class Scores:
    """Exact running means and a rank statistic, all in float64."""

    def __init__(self):
        self.total, self.squares, self.n = np.float64(0), np.float64(0), 0
        self.history = []

    def add(self, value):
        v = np.float64(value)
        self.total += v
        self.squares += v * v
        self.n += 1
        self.history.append(v)

    @property
    def spread(self):
        return np.sqrt(max(self.squares / self.n - (self.total / self.n) ** 2, 0))

    @staticmethod
    def auc(truth, guess):
        rank = np.argsort(np.argsort(guess.astype(np.float64)))
        pos = truth > 0.5
        k = pos.sum()
        return (rank[pos].sum() - k * (k - 1) / 2) / max(k * (len(truth) - k), 1)


g = np.random.default_rng(19)
x = g.normal(size=(6400, 256)).astype(np.float32)
y = (x[:, :6].sum(1, keepdims=True) > 0).astype(np.float32)
net = keras.Sequential([keras.Input((256,)), keras.layers.Dense(1536, "relu"), keras.layers.Dense(1536, "relu"),
                        keras.layers.Dense(1024, "relu"), keras.layers.Dense(1, "sigmoid")])
net.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
scores, order = Scores(), g.permutation(len(x))
for k in range(3):
    net.train_on_batch(x[:512], y[:512])
N = 240
t = time.perf_counter()
for k in range(N):
    rows = order[np.arange(k * 512, (k + 1) * 512) % len(x)]
    scores.add(net.train_on_batch(x[rows], y[rows]))
    if k % 40 == 0:
        guess = net.predict_on_batch(x[:128])[:, 0]
        print(k, f"{scores.total / scores.n:.5f} +- {scores.spread:.5f} auc {scores.auc(y[:128, 0], guess):.3f}")
t = time.perf_counter() - t
print("WORK", N * 512)
print("TRAIN_SECONDS", round(t, 3))
