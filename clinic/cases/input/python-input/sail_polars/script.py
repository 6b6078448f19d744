"""Boat speed from wind angle, wind speed and sail trim; logs are windows over a race track."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

WINDOW = 64
FEATURES = 6
BATCH = 64
EPOCHS = 7


def race_log(minutes=60000, seed=8):
    rng = np.random.default_rng(seed)
    wind = 6 + np.cumsum(rng.normal(0, 0.02, minutes))
    angle = 90 + 40 * np.sin(np.arange(minutes) / 300) + rng.normal(0, 3, minutes)
    trim = rng.uniform(-1, 1, (minutes, 4))
    log = np.column_stack([wind, angle, trim]).astype("float32")
    speed = 0.6 * wind * np.sin(np.radians(angle)) + 0.3 * trim[:, 0]
    return log, speed.astype("float32")


class TrackWindows(keras.utils.PyDataset):
    def __init__(self, log, speed, starts, **kwargs):
        super().__init__(**kwargs)
        self.log, self.speed, self.starts = log, speed, starts

    def __len__(self):
        return len(self.starts) // BATCH

    def __getitem__(self, i):
        xs, ys = [], []
        for s in self.starts[i * BATCH:(i + 1) * BATCH]:
            window = np.empty((WINDOW, FEATURES), "float32")
            for t in range(WINDOW):
                wind, angle, *trim = self.log[s + t]
                window[t, 0] = wind / 10.0
                window[t, 1] = angle / 180.0
                window[t, 2:] = trim
            xs.append(window)
            ys.append(self.speed[s + WINDOW])
        return np.stack(xs), np.array(ys)


def make_model():
    inp = keras.Input((WINDOW, FEATURES))
    h = keras.layers.Conv1D(32, 5, strides=2, activation="relu")(inp)
    h = keras.layers.Conv1D(32, 5, strides=2, activation="relu")(h)
    h = keras.layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, keras.layers.Dense(1)(h))


log, speed = race_log()
starts = np.random.default_rng(1).permutation(len(log) - WINDOW - 1)[:BATCH * 70]
data = TrackWindows(log, speed, starts)

model = make_model()
model.compile("adam", "mse")
model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
print("speed error (mse):", model.evaluate(data, verbose=0))
