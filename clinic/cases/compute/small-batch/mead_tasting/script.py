"""Mead quality score from 11 lab values, 3-fold cross validation."""
import time

import keras
import numpy as np

keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
N = 2000
X = rng.normal(size=(N, 11)).astype("float32")
score = 5 + X[:, 0] - 0.6 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
y = (score > 5).astype("float32")
weight = {0: 1.0, 1: float((y == 0).sum() / (y == 1).sum())}


def make_model():
    m = keras.Sequential([
        keras.Input((11,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
    m.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    return m


folds = np.array_split(rng.permutation(N), 3)
t0 = time.time()
work = 0
for k, test in enumerate(folds):
    train = np.concatenate([f for j, f in enumerate(folds) if j != k])
    model = make_model()
    model.fit(X[train], y[train], epochs=5, batch_size=3, class_weight=weight, verbose=0)
    work += 5 * len(train)
    p = model.predict(X[test], batch_size=500, verbose=0)[:, 0]
    print("fold", k, "accuracy %.3f" % np.mean((p > 0.5) == (y[test] > 0.5)))
print("WORK", work)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
