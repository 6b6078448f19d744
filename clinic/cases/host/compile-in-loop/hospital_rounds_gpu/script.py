"""Federated averaging over hospitals: each trains locally on its own records, then weights are averaged."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
SITES, ROUNDS = (2, 2) if SMALL else (5, 2)
RECORDS, FIELDS, BATCH = (96, 32, 32) if SMALL else (1792, 96, 128)

rng = np.random.default_rng(12)
truth = rng.normal(size=FIELDS)
sites = []
for s in range(SITES):
    x = rng.normal(loc=0.1 * s, size=(RECORDS, FIELDS)).astype("float32")
    y = (x @ truth + rng.normal(size=RECORDS) > 0).astype("float32")[:, None]
    sites.append((x, y))


def network():
    model = keras.Sequential([
        keras.Input((FIELDS,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(keras.optimizers.SGD(0.05), "binary_crossentropy")
    return model


class Steps(keras.callbacks.Callback):
    ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())


shared = network().get_weights()
for r in range(ROUNDS):
    returned = []
    for x, y in sites:
        local = network()
        local.set_weights(shared)
        local.fit(x, y, batch_size=BATCH, epochs=1, verbose=0, callbacks=[Steps()])
        returned.append(local.get_weights())
    shared = [np.mean(group, axis=0) for group in zip(*returned)]
    print("round", r, "norm", float(np.sqrt(sum((w ** 2).sum() for w in shared))))
stop = time.perf_counter()
half = len(Steps.ends) // 2
print(f"steady_ms={(stop - Steps.ends[half - 1]) / (len(Steps.ends) - half) * 1e3:.3f}")
