"""Coin sorter with a confusion table after each epoch and a running loss log."""
import csv
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(107)
rng = np.random.default_rng(107)

KINDS, SIZE = 5, 48
yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
kind = rng.integers(0, KINDS, 1100).astype("int32")
radius = 0.4 + 0.1 * kind + rng.normal(0, 0.02, 1100)
coins = ((xx ** 2 + yy ** 2)[None] < radius[:, None, None] ** 2).astype("float32")
coins = (coins + rng.normal(0, 0.3, coins.shape))[..., None].astype("float32")
train_x, train_y, hold_x, hold_y = coins[:1024], kind[:1024], coins[1024:], kind[1024:]


class Table(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        guess = np.argmax(self.model.predict_on_batch(hold_x), axis=-1)
        table = tf.math.confusion_matrix(hold_y, guess, KINDS).numpy()
        print("diagonal", np.diag(table))


class LossLog(tf.keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)

    def on_train_batch_end(self, batch, logs=None):
        self.writer.writerow([batch, logs["loss"]])

    def on_train_end(self, logs=None):
        self.file.close()


model = tf.keras.Sequential([
    tf.keras.layers.Input((SIZE, SIZE, 1)),
    tf.keras.layers.Conv2D(24, 5, padding="same", activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
    tf.keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(KINDS),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
path = os.path.join(tempfile.mkdtemp(prefix="coin_"), "loss.csv")
model.fit(train_x, train_y, batch_size=32, epochs=4, callbacks=[Table(), LossLog(path)], verbose=2)
