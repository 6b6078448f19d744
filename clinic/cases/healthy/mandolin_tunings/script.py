"""How far out of tune is each course of a mandolin? Regression on short spectra, with the usual callbacks."""

import os
import tempfile
import time

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

COURSES = np.array([196.00, 293.66, 440.00, 659.26])
RATE, LENGTH, COUNT = 4000, 1024, 3600


def chords(seed):
    """Strummed open strings, computed in float64 and handed on as log spectra in float32."""
    rng = np.random.default_rng(seed)
    cents = rng.uniform(-40, 40, (COUNT, len(COURSES)))
    pitch = COURSES * 2 ** (cents / 1200)
    t = np.arange(LENGTH) / RATE
    sound = np.zeros((COUNT, LENGTH))
    for course in range(len(COURSES)):
        for partial in (1, 2):
            phase = rng.uniform(0, 2 * np.pi, (COUNT, 1))
            sound += np.sin(2 * np.pi * partial * pitch[:, course, None] * t + phase) / partial
    sound *= np.exp(-2.0 * t) * np.hanning(LENGTH)
    spectrum = np.abs(np.fft.rfft(sound, axis=1))[:, 1:]
    return np.log1p(spectrum).astype("float32")[..., None], (cents / 40).astype("float32")


def tuner():
    return keras.Sequential(
        [
            keras.Input((LENGTH // 2, 1)),
            layers.Conv1D(24, 9, padding="same", activation="relu"),
            layers.Conv1D(32, 9, strides=2, padding="same", activation="relu"),
            layers.Conv1D(48, 9, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(96, activation="relu"),
            layers.Dense(len(COURSES)),
        ]
    )


class Counter(keras.callbacks.Callback):
    """Counts samples and steps; light enough for every batch."""

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1

    def on_epoch_begin(self, epoch, logs=None):
        self.began, self.before = time.perf_counter(), self.steps

    def on_epoch_end(self, epoch, logs=None):
        took = time.perf_counter() - self.began
        self.times.append(took)
        pace = took / (self.steps - self.before) * 1e3
        print(f"epoch {epoch}: loss {logs['loss']:.4f} val {logs['val_loss']:.4f}, {took:.2f} s, {pace:.1f} ms a step")


def main():
    keras.utils.set_random_seed(33)
    x, y = chords(33)
    model = tuner()
    model.compile(optimizer="adam", loss="mae")
    counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            counter,
            keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_best_only=True, save_weights_only=True),
            keras.callbacks.ReduceLROnPlateau(patience=2),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
        ]
        began = time.perf_counter()
        model.fit(x, y, batch_size=48, epochs=14, validation_split=0.06, verbose=0, callbacks=callbacks)
        print(f"trained in {time.perf_counter() - began:.2f} s, {counter.steps} steps")


if __name__ == "__main__":
    main()
