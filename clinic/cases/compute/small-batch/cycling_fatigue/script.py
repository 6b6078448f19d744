# Predict a rider's fatigue score from one minute of power meter data
# (power, cadence, heart rate, speed, gradient, temperature; 1 Hz).
import time

import numpy as np
import keras
from keras import layers

RIDES = 10000
BATCH = 8
EPOCHS = 5
LR = 4e-4


def load_rides():
    rng = np.random.default_rng(404)
    strength = rng.uniform(150, 380, (RIDES, 1))
    tired = rng.beta(2, 3, (RIDES, 1))
    sec = np.arange(60)[None]
    power = strength * (1 - 0.3 * tired * sec / 60) + rng.normal(0, 25, (RIDES, 60))
    cadence = 90 - 15 * tired + rng.normal(0, 4, (RIDES, 60))
    heart = 120 + 60 * tired + 0.1 * sec + rng.normal(0, 2, (RIDES, 60))
    speed = power / 9 + rng.normal(0, 1, (RIDES, 60))
    slope = rng.normal(0, 2, (RIDES, 60))
    temp = rng.uniform(5, 30, (RIDES, 1)) + np.zeros((1, 60))
    x = np.stack([power, cadence, heart, speed, slope, temp], -1)
    x = (x - x.mean((0, 1))) / x.std((0, 1))
    return x.astype("float32"), tired.astype("float32")


def fatigue_net():
    inputs = keras.Input((60, 6), name="minute")
    h = layers.Conv1D(16, 5, padding="same", activation="relu")(inputs)
    h = layers.Conv1D(24, 5, strides=2, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(32, activation="relu")(h)
    out = layers.Dense(1, activation="sigmoid", name="fatigue")(h)
    return keras.Model(inputs, out)


keras.utils.set_random_seed(404)
x, y = load_rides()
model = fatigue_net()
model.compile(optimizer=keras.optimizers.Adam(LR), loss="mse", metrics=["mae"])
model.summary()

t0 = time.time()
log = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=True, verbose=2)
t1 = time.time()

print("mae", [round(v, 4) for v in log.history["mae"]])
print("WORK", RIDES * EPOCHS)
print("TRAIN_SECONDS %.3f" % (t1 - t0))
