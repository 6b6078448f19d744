"""Points for a wine from its chemistry: tabular data with a validation share."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import Dense, Dropout, Input, Normalization


def bottles(n=2400):
    g = np.random.default_rng(55)
    x = g.gamma(2.0, 1.0, (n, 11)).astype("float32")
    return x, (80 + 3 * np.log1p(x[:, 0] * x[:, 3]) - x[:, 5] + g.normal(0, .5, n)).astype("float32") / 100


def pour(x, y, batch):
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat().batch(batch).prefetch(2)


x, y = bottles()
train_x, train_y, test_x, test_y = x[:2000], y[:2000], x[2000:], y[2000:]
norm = Normalization()
norm.adapt(train_x)
tf.keras.utils.set_random_seed(55)
model = tf.keras.Sequential([Input((11,)), norm, Dense(64, activation="relu"), Dropout(.1), Dense(64, activation="relu"),
                             Dense(1)])
model.compile(optimizer="adam", loss="mae")
per_epoch = len(train_x)
t0 = time.time()
model.fit(pour(train_x, train_y, 25), epochs=3, steps_per_epoch=per_epoch, verbose=2,
          validation_data=(test_x, test_y))
print(f"cellar done in {time.time() - t0:.2f} s")
