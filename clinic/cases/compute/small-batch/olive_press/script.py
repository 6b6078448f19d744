# Yield of an olive press from the settings of a run (table of past runs, made up here).
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)


def past_runs(n):
    temperature = rng.uniform(18, 36, n)
    minutes = rng.uniform(15, 60, n)
    ripeness = rng.uniform(0, 7, n)
    water = rng.uniform(0.3, 0.7, n)
    other = rng.normal(size=(n, 12))
    yield_ = (
        12
        + 0.15 * (temperature - 27)
        - 0.01 * (temperature - 27) ** 2
        + 0.05 * minutes
        + 1.2 * np.log1p(ripeness)
        - 6.0 * (water - 0.5) ** 2
        + 0.3 * other[:, 0] * other[:, 1]
    )
    x = np.column_stack([temperature / 36, minutes / 60, ripeness / 7, water, other])
    return x.astype("float32"), yield_.astype("float32")


x, y = past_runs(8192)
y = (y - y.mean()) / y.std()

model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(64, activation="swish"),
        layers.Dense(64, activation="swish"),
        layers.Dense(32, activation="swish"),
        layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse", metrics=["mae"])
model.summary()

history = model.fit(
    x,
    y,
    batch_size=4,
    epochs=3,
    verbose=2,
)

best = min(history.history["mae"])
print(f"mean error, in standard deviations: {best:.3f}")
