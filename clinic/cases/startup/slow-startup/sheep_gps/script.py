"""Is the sheep grazing, walking or lying? GPS collar windows, a quick try before the long training tonight."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import LSTM, Dense, Dropout, Input
from tensorflow.keras.models import Sequential

tf.keras.utils.set_random_seed(71)
TICKS = 110


def collars(n):
    rng = np.random.default_rng(71)
    what = rng.integers(0, 3, n)
    pace = np.array([0.3, 1.0, 0.02])[what]
    steps = rng.normal(size=(n, TICKS, 2)) * pace[:, None, None]
    steps += np.array([0.0, 0.5, 0.0])[what][:, None, None]
    height = rng.normal(size=(n, TICKS, 1)) * 0.1
    return np.concatenate([steps, height], -1).astype("float32"), what


X, y = collars(64 * 80)
t0 = time.time()
model = Sequential()
model.add(Input((TICKS, 3)))
model.add(LSTM(24, unroll=True))
model.add(Dropout(0.2))
model.add(Dense(3, activation="softmax"))
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(X, y, batch_size=64, epochs=1, verbose=2)
print("WORK", len(X))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
