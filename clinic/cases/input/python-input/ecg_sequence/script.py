"""Heart-beat classification; a PyDataset cuts windows out of long ECG recordings."""
import math
import time
import numpy as np
import keras

FS, WINDOW, BATCH = 100, 256, 32
rng = np.random.default_rng(0)
recordings = [rng.normal(size=20_000).astype("float32") for _ in range(8)]
beats = [(r, int(p), int(rng.integers(0, 3))) for r in range(8) for p in rng.integers(300, 19_000, 500)]


class Windows(keras.utils.PyDataset):
    def __init__(self, beats, **kwargs):
        super().__init__(**kwargs)
        self.beats = beats

    def __len__(self):
        return math.ceil(len(self.beats) / BATCH)

    def __getitem__(self, index):
        xs, ys = [], []
        for rec, pos, kind in self.beats[index * BATCH:(index + 1) * BATCH]:
            window = []
            signal = recordings[rec]
            for k in range(pos - WINDOW // 2, pos + WINDOW // 2):
                window.append(0.25 * signal[k - 1] + 0.5 * signal[k] + 0.25 * signal[k + 1])
            xs.append(window)
            ys.append(kind)
        return np.array(xs, "float32")[..., None], np.array(ys)


model = keras.Sequential([
    keras.Input((WINDOW, 1)),
    keras.layers.Conv1D(8, 7, strides=4, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
train = Windows(beats)
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=9, initial_epoch=1, verbose=2)
print("WORK", 8 * len(beats))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
