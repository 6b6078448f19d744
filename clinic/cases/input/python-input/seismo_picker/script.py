"""P-wave picker: 1-D CNN over random windows of a continuous three-component record."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

FS, WINDOW, BATCH = 100, 600, 64
STEPS, EPOCHS = 70, 5


def make_archive(n_events=900, length=500_000, seed=3):
    rng = np.random.default_rng(seed)
    record = rng.normal(0, 0.3, (length, 3)).astype("float32")
    picks = np.sort(rng.integers(WINDOW, length - WINDOW, n_events))
    t = np.arange(300) / FS
    for p in picks:
        wave = np.exp(-1.5 * t) * np.sin(2 * np.pi * rng.uniform(3, 9) * t)
        record[p:p + 300] += (rng.uniform(1, 4) * wave)[:, None].astype("float32")
    return record, picks


class WindowStream:
    def __init__(self, record, picks, seed=0):
        self.record, self.picks = record, picks
        self.rng = np.random.default_rng(seed)

    def draw(self):
        if self.rng.random() < 0.5:
            pick = self.picks[self.rng.integers(len(self.picks))]
            start = pick - self.rng.integers(100, 500)
            return start, 1.0
        start = self.rng.integers(0, len(self.record) - WINDOW)
        lo = np.searchsorted(self.picks, start)
        inside = lo < len(self.picks) and self.picks[lo] < start + WINDOW
        return start, float(inside)

    def __call__(self):
        while True:
            start, label = self.draw()
            window = self.record[start:start + WINDOW]
            window = window - window.mean(axis=0)
            window = window / (window.std(axis=0) + 1e-6)
            yield window, np.float32(label)


def training_set(record, picks):
    signature = (tf.TensorSpec((WINDOW, 3), tf.float32), tf.TensorSpec((), tf.float32))
    ds = tf.data.Dataset.from_generator(WindowStream(record, picks), output_signature=signature)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def picker():
    return tf.keras.Sequential([
        layers.Input((WINDOW, 3)),
        layers.Conv1D(12, 11, strides=4, activation="relu"),
        layers.Conv1D(24, 7, strides=3, activation="relu"),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


if __name__ == "__main__":
    record, picks = make_archive()
    model = picker()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(training_set(record, picks), steps_per_epoch=STEPS, epochs=EPOCHS, verbose=2)
