# will the next e-scooter hire be longer than 15 min?  station/weather/time -> embeddings + numbers
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SEED = 21
keras.utils.set_random_seed(SEED)
N = 280_000
STATIONS = 180


def hires(n):
    r = np.random.default_rng(SEED)
    d = {
        "station": r.integers(0, STATIONS, n).astype("int32"),
        "hour": r.integers(0, 24, n).astype("int32"),
        "temp": r.normal(14, 7, n).astype("float32"),
        "rain": r.exponential(0.6, n).astype("float32"),
        "battery": r.uniform(10, 100, n).astype("float32"),
    }
    z = 0.05 * (d["temp"] - 14) - 0.7 * d["rain"] + np.sin(d["hour"] / 24 * 6.28) + 0.02 * (d["station"] % 30)
    return d, (z + r.normal(0, 0.5, n) > 0).astype("float32")


def featurize(row, label):
    angle = tf.cast(row["hour"], tf.float32) * (2 * np.pi / 24)
    rush = tf.cast((row["hour"] == 8) | (row["hour"] == 17), tf.float32)
    numbers = tf.stack(
        [
            tf.sin(angle),
            tf.cos(angle),
            (row["temp"] - 14.0) / 7.0,
            tf.math.log1p(row["rain"]),
            tf.clip_by_value(row["battery"] / 100.0, 0.0, 1.0),
            tf.cast(row["temp"] > 25.0, tf.float32),
            rush,
        ],
        axis=-1,
    )
    return {"station": row["station"], "numbers": numbers}, label


def build():
    st = keras.Input((), dtype="int32", name="station")
    nu = keras.Input((7,), name="numbers")
    x = layers.Concatenate()([layers.Embedding(STATIONS, 12)(st), nu])
    for u in (64, 32):
        x = layers.Dense(u, activation="relu")(x)
    m = keras.Model({"station": st, "numbers": nu}, layers.Dense(1, activation="sigmoid")(x))
    m.compile(keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=[keras.metrics.AUC(num_thresholds=50)])
    return m


rows, longer = hires(N)
train = (
    tf.data.Dataset.from_tensor_slices((rows, longer))
    .map(featurize, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(256)
    .prefetch(tf.data.AUTOTUNE)
)
model = build()
t = time.perf_counter()
model.fit(train, epochs=1, verbose=2)
t = time.perf_counter() - t
print(f"WORK {N}\nTRAIN_SECONDS {t:.3f}")
