"""Which bird at which feeder: sightings kept as records, one network on top."""
import gc

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(110)


class Sighting:
    def __init__(self, feeder, hour, weather):
        self.feeder, self.hour, self.weather = feeder, hour, weather
        self.tags = {"feeder": [feeder], "hour": [hour]}


def field_book(n=50_000):
    rng = np.random.default_rng(110)
    f, h, w = rng.integers(0, 20, n), rng.integers(0, 24, n), rng.random((n, 6))
    return [Sighting(int(a), int(b), c) for a, b, c in zip(f, h, w)]


def to_arrays(book):
    x = np.array([[s.feeder / 20, s.hour / 24] for s in book], "float32")
    x = np.concatenate([x, np.array([s.weather for s in book], "float32")], 1)
    return x, (x[:, 0] * 10).astype("int32")


class Tidy(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        gc.collect()


class BirdNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Dense(128, activation="relu")
        self.b = keras.layers.Dense(128, activation="relu")
        self.c = keras.layers.Dense(10)

    def call(self, x):
        return self.c(self.b(self.a(x)))


book = field_book()
x, y = to_arrays(book)
ds = tf.data.Dataset.from_tensor_slices((x[:15360], y[:15360])).batch(256).prefetch(2)
net = BirdNet()
net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
net.fit(ds, epochs=1, callbacks=[Tidy()], verbose=2)
print(len(book), "sightings")
