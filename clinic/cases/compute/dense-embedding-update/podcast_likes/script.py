"""Who likes which podcast: two-tower model with raw ids from the export."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_LIKES = 60000


def export(path):
    rng = np.random.default_rng(6)
    listeners = rng.choice(250000, 5000, replace=False)
    shows = rng.choice(60000, 1500, replace=False)
    u = rng.integers(0, 5000, N_LIKES)
    s = rng.integers(0, 1500, N_LIKES)
    like = ((u * 7 + s * 3) % 5 < 2).astype("float32")
    np.savez(path, listener=listeners[u], show=shows[s], like=like)


class TwoTower(keras.Model):
    def __init__(self, n_listeners, n_shows, dim=16):
        super().__init__()
        self.listener = layers.Embedding(n_listeners, dim)
        self.show = layers.Embedding(n_shows, dim)
        self.left = layers.Dense(64, activation="relu")
        self.right = layers.Dense(64, activation="relu")
        self.bias = self.add_weight(shape=(), initializer="zeros", name="bias")

    def call(self, inputs):
        u, s = inputs
        a = self.left(self.listener(u))
        b = self.right(self.show(s))
        return tf.sigmoid(tf.reduce_sum(a * b, -1) / 8.0 + self.bias)


def main():
    keras.utils.set_random_seed(6)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "likes.npz")
        export(path)
        with np.load(path) as z:
            listener, show, like = z["listener"], z["show"], z["like"]
    n_listeners = int(listener.max()) + 1
    n_shows = int(show.max()) + 1
    print("table sizes", n_listeners, n_shows)
    ds = tf.data.Dataset.from_tensor_slices(((listener, show), like))
    ds = ds.cache().shuffle(N_LIKES).batch(512, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = TwoTower(n_listeners, n_shows)
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
    epochs = 4
    t0 = time.time()
    model.fit(ds, epochs=epochs, verbose=2)
    t1 = time.time()
    print("WORK", epochs * (N_LIKES // 512) * 512)
    print("TRAIN_SECONDS %.2f" % (t1 - t0))


main()
