"""Gestures before an event camera: events (t, x, y, polarity) become small time-binned frames for a CNN."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np

BINS, SIDE, CLASSES = 4, 32, 5


def record(rng, label, count):
    """One recording: a dot that goes round at a pace that depends on the gesture, and noise."""
    t = np.sort(rng.random(count))
    angle = 2 * np.pi * (label + 1) * t + rng.random() * 6
    x = 16 + 10 * np.cos(angle) + rng.normal(0, 1.5, count)
    y = 16 + 10 * np.sin(angle) + rng.normal(0, 1.5, count)
    ev = np.empty(count, dtype=[("t", "f4"), ("x", "i2"), ("y", "i2"), ("p", "i1")])
    ev["t"], ev["x"], ev["y"] = t, np.clip(x, 0, SIDE - 1), np.clip(y, 0, SIDE - 1)
    ev["p"] = rng.random(count) < 0.5
    return ev


def to_volume(events):
    vol = np.zeros((SIDE, SIDE, BINS * 2), "float32")
    for e in events:
        b = min(int(e["t"] * BINS), BINS - 1)
        vol[e["y"], e["x"], 2 * b + e["p"]] += 1.0
    return np.log1p(vol)


class Corpus:
    def __init__(self, n, count=5000, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, CLASSES, n)
        self.events = [record(rng, int(c), count) for c in self.labels]

    def arrays(self):
        return np.stack([to_volume(e) for e in self.events]), self.labels


def classifier():
    return keras.Sequential([
        keras.layers.Input((SIDE, SIDE, BINS * 2)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.GlobalMaxPooling2D(),
        keras.layers.Dense(CLASSES, activation="softmax"),
    ])


if __name__ == "__main__":
    x, y = Corpus(600).arrays()
    net = classifier()
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    net.fit(x, y, batch_size=50, epochs=6, verbose=2)
