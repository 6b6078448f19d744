"""Walk-forward day-ahead price forecast: learn yesterday, forecast today."""
import argparse

import numpy as np
from tensorflow import keras

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--days", type=int, default=64)
ap.add_argument("--warm", type=int, default=60)
opt = ap.parse_args()

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)
hours = np.arange((opt.days + opt.warm + 1) * 24)
price = 40 + 12 * np.sin(hours / 24 * 2 * np.pi) + rng.normal(0, 3, len(hours))
price = ((price - 40) / 12).astype("float32").reshape(-1, 24)

inputs = keras.Input((48,))
h = keras.layers.Dense(64, activation="selu")(inputs)
h = keras.layers.Dense(64, activation="selu")(h)
model = keras.Model(inputs, keras.layers.Dense(24)(h))
model.compile(keras.optimizers.Adam(1e-3), loss="mse")


def features(day):
    return np.concatenate([price[day - 1], price[day - 2]])


def history(until, length=30):
    days = range(max(2, until - length), until)
    return np.stack([features(d) for d in days]), price[max(2, until - length) : until]


class Forecaster:
    def __init__(self, net):
        self.net = net
        self.last = None

    def learn(self, day):
        x, y = history(day)
        self.last = self.net.fit(x, y, batch_size=32, epochs=1, verbose=0).history["loss"][0]

    def forecast(self, day):
        return self.net.predict(features(day)[None], verbose=0)[0]


f = Forecaster(model)
errors = []
for day in range(opt.warm, opt.warm + opt.days):
    f.learn(day)
    errors.append(np.abs(f.forecast(day) - price[day]).mean())
print("loss %.4f, mean error %.4f" % (f.last, np.mean(errors)))
