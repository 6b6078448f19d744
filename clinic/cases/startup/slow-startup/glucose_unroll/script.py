"""Quick look: can a small recurrent net see a hypoglycaemia coming from eight hours of glucose readings?"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
from keras import layers

READINGS = 96


def patients(n, seed):
    r = np.random.default_rng(seed)
    drift = np.cumsum(r.normal(0, 0.15, (n, READINGS)), axis=1)
    meals = (r.random((n, READINGS)) < 0.03) * r.uniform(1, 3, (n, READINGS))
    level = 6 + drift + np.cumsum(meals * 0.3 - 0.02, axis=1)
    y = (level[:, -12:].mean(1) < 5.0).astype("float32")
    x = np.stack([level, meals], axis=-1)
    return ((x - x.mean((0, 1))) / x.std((0, 1))).astype("float32"), y


def recurrent(kind, units, **kw):
    options = dict(unroll=True, recurrent_dropout=0.0)
    options.update(kw)
    return getattr(layers, kind)(units, **options)


def candidate(kind="GRU"):
    m = keras.Sequential(name=f"look_{kind.lower()}")
    m.add(keras.Input((READINGS, 2)))
    m.add(recurrent(kind, 24, return_sequences=True))
    m.add(recurrent(kind, 24))
    m.add(layers.Dense(1, activation="sigmoid"))
    return m


if __name__ == "__main__":
    x, y = patients(640, 0)
    xv, yv = patients(128, 1)
    net = candidate()
    net.compile("adam", "binary_crossentropy")
    net.fit(x, y, batch_size=64, epochs=3, verbose=2)
    print("held-out loss", net.evaluate(xv, yv, batch_size=64, verbose=0))
