"""Predict the winner of a game from telemetry of its opening."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(3)
AUTO = tf.data.AUTOTUNE


class TelemetrySource:
    fields = 14

    def __init__(self, games, seed=3):
        rng = np.random.default_rng(seed)
        self.clock = rng.integers(0, 600, size=(games, self.fields)).astype("int32")
        self.elo = rng.normal(1500, 300, size=(games, 2)).astype("float32")
        self.won = (self.elo[:, 0] + self.clock[:, 0] > self.elo[:, 1] + 300).astype("float32")

    def normalise(self, clock, elo, won):
        return tf.cast(clock, tf.float32) / 600.0, (elo - 1500.0) / 300.0, won

    def differences(self, clock, elo, won):
        spent = clock[..., :-1] - clock[..., 1:]
        return tf.concat([clock, spent], -1), elo, won

    def pack(self, clock, elo, won):
        gap = elo[..., :1] - elo[..., 1:]
        return tf.concat([clock, elo, gap], -1), won[..., None]

    def dataset(self, batch):
        ds = tf.data.Dataset.from_tensor_slices((self.clock, self.elo, self.won))
        for stage in (self.normalise, self.differences, self.pack):
            ds = ds.map(stage, num_parallel_calls=AUTO)
        return ds.batch(batch, drop_remainder=True).prefetch(AUTO)


def classifier():
    return keras.Sequential([
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])


source = TelemetrySource(games=60_000)
model = classifier()
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(source.dataset(512), epochs=3, verbose=2)
