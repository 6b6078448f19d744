"""Rent per flat from listing tables, quantile loss for three quantiles."""
import time

import keras
import numpy as np
from keras import layers, ops

QUANTILES = (0.1, 0.5, 0.9)


def listings(n=6400, seed=30):
    rng = np.random.default_rng(seed)
    area = rng.gamma(6, 12, n)
    rooms = np.clip(np.round(area / 25), 1, 8)
    age = rng.uniform(0, 120, n)
    district = rng.integers(0, 30, n)
    rent = 8 * area + 40 * rooms - age + 5 * district + rng.normal(0, 60, n)
    num = np.stack([area, rooms, age], 1)
    num = (num - num.mean(0)) / num.std(0)
    return num.astype("float32"), district.astype("int32"), ((rent - rent.mean()) / rent.std()).astype("float32")


def pinball(y_true, y_pred):
    q = ops.convert_to_tensor(QUANTILES, dtype="float32")
    d = ops.reshape(y_true, (-1, 1)) - y_pred
    return ops.mean(ops.maximum(q * d, (q - 1) * d), axis=-1)


def flat_model():
    num = keras.Input((3,), name="num")
    dis = keras.Input((), dtype="int32", name="district")
    e = layers.Embedding(30, 6)(dis)
    h = layers.Concatenate()([num, e])
    for width in (64, 64, 32):
        h = layers.Dense(width, activation="relu")(h)
        h = layers.BatchNormalization()(h)
    return keras.Model([num, dis], layers.Dense(len(QUANTILES))(h))


num, district, rent = listings()
model = flat_model()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss=pinball)
params = dict(batch_size=4, epochs=2, verbose=2, shuffle=True)
t0 = time.perf_counter()
hist = model.fit({"num": num, "district": district}, rent, **params)
t1 = time.perf_counter()
pred = model.predict({"num": num[:5], "district": district[:5]}, verbose=0)
print(np.round(pred, 2))
print("WORK", len(rent) * params["epochs"])
print("TRAIN_SECONDS %.3f" % (t1 - t0))
