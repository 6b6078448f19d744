"""Greenhouse temperature one hour ahead; features are the usual rolling statistics."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(14)
SPAN = 48
N = 250_000


def series():
    rng = np.random.default_rng(14)
    t = np.arange(N)
    temp = 18 + 6 * np.sin(t * 2 * np.pi / 288) + np.convolve(rng.normal(size=N), np.ones(20) / 5, "same")
    vent = (temp > 22).astype(float) * rng.uniform(0.3, 1, N)
    return temp, vent


def features(temp, vent):
    rows = []
    for i in range(SPAN, len(temp) - 12):
        past = temp[i - SPAN:i]
        rows.append([past[-1], past.mean(), past.std(), past.min(), past.max(), past[-1] - past[0],
                     vent[i - SPAN:i].mean()])
    return np.array(rows)


start = time.time()
temp, vent = series()
X = features(temp, vent)
y = temp[SPAN + 12:] - temp[SPAN:-12]
X = ((X - X.mean(0)) / X.std(0)).astype("float32")
y = y.astype("float32")
cut = int(0.85 * len(X))

model = tf.keras.Sequential(
    [tf.keras.Input((X.shape[1],))]
    + [tf.keras.layers.Dense(u, activation="relu") for u in (96, 96, 48)]
    + [tf.keras.layers.Dense(1)]
)
model.compile(optimizer="nadam", loss=tf.keras.losses.LogCosh())
model.fit(X[:cut], y[:cut], batch_size=256, epochs=1, validation_data=(X[cut:], y[cut:]), verbose=2)
print("WORK", cut)
print("TRAIN_SECONDS %.3f" % (time.time() - start))
