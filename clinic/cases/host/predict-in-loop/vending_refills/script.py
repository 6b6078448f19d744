"""How many cans will each vending machine sell tomorrow?

Streams one season of daily records, day after day, the way the route planner
gets them at 4 a.m.  The regressor keeps the scikit-learn manner of the old
SGDRegressor version (partial_fit, predict), so the planner did not change.
"""
import math
import time

import keras
import numpy as np

MACHINES = 90
DAYS = 300


class Season:
    """Synthetic sales of a fleet of machines."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.site = self.rng.normal(size=(MACHINES, 6))          # station, school, office ...
        self.level = np.exp(2.6 + 0.5 * self.rng.normal(size=MACHINES))
        self.last = np.tile(self.level[:, None], (1, 7))          # sales of the last week

    def day(self, d):
        weekday = d % 7
        heat = 18 + 9 * math.sin(2 * math.pi * d / 365) + self.rng.normal(0, 3)
        rain = float(self.rng.random() < 0.3)
        weekend = 0.55 if weekday >= 5 else 1.0
        mean = self.level * weekend * np.exp(0.04 * (heat - 18) - 0.2 * rain)
        mean = mean * np.exp(0.15 * self.site[:, 0] * (weekday >= 5))
        sales = self.rng.poisson(mean).astype("float64")
        calendar = np.zeros((MACHINES, 7))
        calendar[:, weekday] = 1.0
        weather = np.tile([[heat / 30.0, rain, rain * heat / 30.0, weekend]], (MACHINES, 1))
        x = np.concatenate([self.site, calendar, weather, np.log1p(self.last)], axis=1)
        y = np.log1p(sales)
        self.last = np.concatenate([self.last[:, 1:], sales[:, None]], axis=1)
        return x.astype("float32"), y.astype("float32")


class StreamRegressor:
    def __init__(self, n_features, hidden=(96, 96, 48), lr=3e-3):
        self.net = keras.Sequential([keras.Input((n_features,))])
        for h in hidden:
            self.net.add(keras.layers.Dense(h, activation="swish"))
        self.net.add(keras.layers.Dense(1))
        self.net.compile(optimizer=keras.optimizers.Adam(lr), loss="mse")

    def partial_fit(self, x, y):
        """One pass over the new rows; gives the error they were met with."""
        h = self.net.fit(x, y, batch_size=len(x), epochs=1, shuffle=False, verbose=0)
        return h.history["loss"][0]

    def predict(self, x):
        return np.expm1(self.net.predict(x, batch_size=1024, verbose=0)[:, 0])


keras.utils.set_random_seed(21)
season = Season(seed=21)
reg = None
errors = []

start = time.perf_counter()
for d in range(DAYS):
    x, y = season.day(d)
    if reg is None:
        reg = StreamRegressor(x.shape[1])
    errors.append(reg.partial_fit(x, y[:, None]))
    if (d + 1) % 50 == 0:
        print(f"day {d + 1:3d}  rmse(log) of the last 50 days {np.sqrt(np.mean(errors[-50:])):.3f}")
seconds = time.perf_counter() - start

x, y = season.day(DAYS)
loads = reg.predict(x)
print("cans to load tomorrow:", int(np.ceil(loads).sum()), " sold:", int(np.expm1(y).round().sum()))
print(f"TRAIN_SECONDS {seconds:.2f}")
