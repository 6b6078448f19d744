"""Museum door counts: predict how long a visitor stays from the time stamp of the ticket (CSV export)."""
import csv
import datetime as dt
import io
import time

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(23)


def export(n=600_000):
    """The till's CSV: stamp, price class, minutes inside."""
    rng = np.random.default_rng(23)
    seconds = rng.integers(0, 2 * 365 * 86400, n)
    stamps = np.datetime_as_string(np.datetime64("2023-01-01T00:00:00") + seconds.astype("timedelta64[s]"))
    price = rng.integers(0, 4, n)
    hour = seconds // 3600 % 24
    stay = 60 + 25 * np.cos((hour - 11) / 24 * 6.28) + 8 * price + rng.normal(0, 10, n)
    return io.StringIO("\n".join(f"{s},{p},{m:.1f}" for s, p, m in zip(stamps, price, stay)))


def read(file):
    stamps, price, stay = zip(*csv.reader(file))
    return np.array(stamps), np.array(price, "int32"), np.array(stay, "float32")


def calendar(stamps):
    out = np.zeros((len(stamps), 5), "float32")
    for i, s in enumerate(stamps):
        d = dt.datetime.strptime(s, "%Y-%m-%dT%H:%M:%S")
        day = d.hour * 3600 + d.minute * 60 + d.second
        out[i, 0] = np.sin(2 * np.pi * day / 86400)
        out[i, 1] = np.cos(2 * np.pi * day / 86400)
        out[i, 2] = d.weekday() / 6
        out[i, 3] = d.month / 12
        out[i, 4] = d.weekday() >= 5
    return out


file = export()
t0 = time.time()
stamps, price, stay = read(file)
when = calendar(stamps)
target = (stay - stay.mean()) / stay.std()

a, b = keras.Input((5,)), keras.Input((), dtype="int32")
h = layers.concatenate([a, layers.Embedding(4, 3)(b)])
h = layers.Dense(64, activation="relu")(h)
h = layers.Dense(32, activation="relu")(h)
model = keras.Model([a, b], layers.Dense(1)(h))
model.compile("adam", "mse")
model.fit([when, price], target, batch_size=512, epochs=1, verbose=2)
print("WORK", len(target))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
