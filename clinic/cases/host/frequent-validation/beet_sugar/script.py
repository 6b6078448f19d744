# sugar content of beets from NIR spectra. keras 3, 1D CNN, early stopping on a big hold-out set
import time

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(12)
rng = np.random.default_rng(12)


def spectra(n):
    sugar = rng.uniform(12, 22, n)
    wave = np.linspace(0, 1, 200)
    s = np.exp(-((wave - 0.4) ** 2) / 0.01) * sugar[:, None] / 20
    s += rng.normal(0, 0.5, (n, 1)) * wave + 0.05 * rng.normal(size=(n, 200))
    return s[..., None].astype("float32"), ((sugar - 17) / 3).astype("float32")


xtr, ytr = spectra(2048)
xva, yva = spectra(16000)

inp = keras.layers.Input((200, 1))
z = keras.layers.Conv1D(16, 9, strides=2, activation="relu")(inp)
z = keras.layers.Conv1D(24, 7, strides=2, activation="relu")(z)
z = keras.layers.Conv1D(24, 5, strides=2, activation="relu")(z)
z = keras.layers.Flatten()(z)
z = keras.layers.Dense(32, activation="relu")(z)
net = keras.Model(inp, keras.layers.Dense(1)(z))
net.compile("adam", "mse", metrics=["mae"])

train = tf.data.Dataset.from_tensor_slices((xtr, ytr)).shuffle(2048, seed=1).repeat().batch(32).prefetch(4)
valid = tf.data.Dataset.from_tensor_slices((xva, yva)).batch(32).prefetch(4)
stop = keras.callbacks.EarlyStopping(patience=30, restore_best_weights=True)

t0 = time.time()
hist = net.fit(train, steps_per_epoch=16, epochs=16, validation_data=valid, callbacks=[stop], verbose=2)
t1 = time.time()
print("best val mae %.4f" % min(hist.history["val_mae"]))
print("WORK", 16 * 16 * 32)
print("TRAIN_SECONDS %.3f" % (t1 - t0))
