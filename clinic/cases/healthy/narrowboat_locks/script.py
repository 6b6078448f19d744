"""Waiting time at canal locks: sequences of boat arrivals, LSTM regression."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

HOURS, LOCKS = 72, 20


def lock_keeper(n, rng):
    rate = rng.gamma(2.0, 1.5, (n, 1, LOCKS))
    boats = rng.poisson(rate, (n, HOURS, LOCKS)).astype("float32")
    wait = boats[:, -12:].mean((1, 2)) * 4 + rng.normal(0, 0.5, n)
    return boats, wait                       # minutes, float64 as the keeper wrote them


def to_example(boats, wait):
    return tf.math.log1p(boats), wait / 10.0


def dataset(boats, wait, training):
    ds = tf.data.Dataset.from_tensor_slices((boats, wait))
    if training:
        ds = ds.shuffle(len(boats), seed=44)
    return ds.batch(64).map(to_example).prefetch(1)


def model_fn():
    boats = keras.Input((HOURS, LOCKS))
    x = layers.LSTM(96, return_sequences=True)(boats)
    x = layers.LSTM(96)(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(boats, layers.Dense(1)(x))


class Clock(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.last = logs["loss"]

    def on_epoch_end(self, epoch, logs=None):
        print("epoch", epoch, "running loss", round(self.last, 4))


def main():
    rng = np.random.default_rng(44)
    keras.utils.set_random_seed(44)
    boats, wait = lock_keeper(3000, rng)
    train = dataset(boats[:2560], wait[:2560], True)
    valid = dataset(boats[2560:], wait[2560:], False)
    model = model_fn()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
    model.fit(train, validation_data=valid, epochs=2, callbacks=[Clock()], verbose=0)
    print("valid mae", model.evaluate(valid, verbose=0))


main()
