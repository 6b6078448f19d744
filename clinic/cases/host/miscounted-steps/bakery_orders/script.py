"""Tomorrow's orders of forty bakeries from the last four weeks."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(63)
rng = np.random.default_rng(63)

SHOPS, DAYS, WINDOW = 40, 110, 28
EPOCHS, BATCH = 6, 32

weekly = 1 + 0.4 * np.sin(2 * np.pi * (np.arange(DAYS)[None] + rng.integers(0, 7, (SHOPS, 1))) / 7)
orders = (weekly + 0.1 * rng.normal(size=(SHOPS, DAYS))).astype("float32")
windows = np.concatenate([orders[:, i:i + WINDOW] for i in range(DAYS - WINDOW)])[..., None]
target = np.concatenate([orders[:, i + WINDOW] for i in range(DAYS - WINDOW)])[:, None]
windows, target = windows[::2], target[::2]
print(len(windows), "windows")


def make_dataset(x, y):
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache()
    ds = ds.shuffle(len(x), seed=9).batch(BATCH, drop_remainder=True)
    return ds.repeat(EPOCHS).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([
    keras.Input((WINDOW, 1)),
    layers.Conv1D(32, 5, padding="causal", activation="relu"),
    layers.Conv1D(32, 5, padding="causal", dilation_rate=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer="adam", loss="mae")
t0 = time.time()
model.fit(make_dataset(windows, target), epochs=EPOCHS, verbose=2)
print(f"training took {time.time() - t0:.1f} s")
