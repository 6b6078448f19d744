"""Daily revenue for every shop of a chain from shared calendar and weather features."""
import time

import numpy as np
import keras
from keras import layers

SHOPS = [f"shop_{i:02d}" for i in range(44)]


def history(days=1280, features=20):
    rng = np.random.default_rng(14)
    x = rng.normal(size=(days, features)).astype("float32")
    mix = rng.normal(size=(features, len(SHOPS))) / np.sqrt(features)
    y = np.tanh(x @ mix) + 0.1 * rng.normal(size=(days, len(SHOPS)))
    return x, y.astype("float32")


def per_shop(y):
    return {name: y[:, i:i + 1] for i, name in enumerate(SHOPS)}


def chain_model(features=20):
    inp = layers.Input((features,), name="day")
    trunk = layers.Dense(64, activation="relu")(inp)
    outputs = {}
    for name in SHOPS:
        h = layers.Dense(12, activation="relu", name=f"{name}_hidden")(trunk)
        outputs[name] = layers.Dense(1, name=name)(h)
    return keras.Model(inp, outputs)


x, y = history()
cut = int(0.85 * len(x))
model = chain_model()
t0 = time.time()
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss={name: "mse" for name in SHOPS},
    metrics={name: ["mae"] for name in SHOPS},
)
model.fit(
    x[:cut], per_shop(y[:cut]),
    validation_data=(x[cut:], per_shop(y[cut:])),
    batch_size=64, epochs=2, verbose=0,
)
pred = model(x[cut:])
mae = {name: np.abs(pred[name].numpy()[:, 0] - y[cut:, i]).mean() for i, name in enumerate(SHOPS)}
worst = sorted(mae, key=mae.get)[-3:]
print("mean mae %.3f" % np.mean(list(mae.values())), "worst", worst)
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
