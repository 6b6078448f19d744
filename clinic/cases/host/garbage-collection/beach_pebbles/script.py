"""Convolutional autoencoder for photographs of pebbles; reconstruction error = 'odd pebble'."""
import gc
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(88)


class Beach:
    def __init__(self, count, side=32):
        self.rng = np.random.default_rng(88)
        self.side = side
        y, x = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
        a, b = self.rng.uniform(0.3, 0.9, (2, count, 1, 1))
        tone = self.rng.uniform(0.2, 1.0, (count, 1, 1))
        self.images = (((x / a) ** 2 + (y / b) ** 2 < 1) * tone).astype("float32")[..., None]
        # where and when each one was picked up
        self.notes = [{"id": i, "at": (float(p), float(q)), "tags": ["beach", i % 7]}
                      for i, (p, q) in enumerate(self.rng.random((count * 40, 2)))]

    def batches(self, size):
        order = self.rng.permutation(len(self.images))
        for i in range(0, len(order) - size + 1, size):
            pick = order[i:i + size]
            yield self.images[pick] + 0.05 * self.rng.standard_normal((size, self.side, self.side, 1)).astype("float32"), pick


def autoencoder():
    i = tf.keras.Input((32, 32, 1))
    h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(i)
    h = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(h)
    code = layers.Conv2D(4, 3, strides=2, padding="same")(h)
    h = layers.Conv2DTranspose(24, 3, strides=2, padding="same", activation="relu")(code)
    h = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(h)
    o = layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(h)
    m = tf.keras.Model(i, o)
    m.compile("adam", "mse")
    return m


beach = Beach(1600)
model = autoencoder()
errors = np.zeros(1600)
t0 = time.time()
work = 0
for epoch in range(2):
    for noisy, pick in beach.batches(50):
        loss = model.train_on_batch(noisy, beach.images[pick])
        errors[pick] = loss
        work += len(pick)
        del noisy
        gc.collect()
    print(f"epoch {epoch}: loss {float(loss):.5f}")
print("worst:", beach.notes[int(errors.argmax())])
print("WORK", work)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
