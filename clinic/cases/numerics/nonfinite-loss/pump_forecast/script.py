"""Next hour's pressure of a pump from the last day's: plain gradient descent, with a rate from another project."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(8)
t = np.arange(9000)
series = 3 * np.sin(t / 24) + np.sin(t / 3.7) + 0.1 * rng.normal(size=9000)
windows = np.lib.stride_tricks.sliding_window_view(series, 25).astype("float32")
x, y = windows[:, :24].copy(), windows[:, 24:].copy()

model = tf.keras.Sequential([
    tf.keras.layers.Input((24,)),
    tf.keras.layers.Dense(64, activation="relu", name="first"),
    tf.keras.layers.Dense(64, activation="relu", name="second"),
    tf.keras.layers.Dense(1, name="pressure"),
])
model.compile(tf.keras.optimizers.SGD(1.0), "mse")
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=10, verbose=2)
print("WORK", len(x) * 10)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
