"""Passengers on each crossing: quantile forecasts for two routes, one model each."""
import numpy as np
import tensorflow as tf
import keras


def pinball(quantile):
    def loss(truth, guess):
        gap = truth - guess
        return tf.reduce_mean(tf.maximum(quantile * gap, (quantile - 1.0) * gap))

    return loss


def crossings(count, seed):
    rng = np.random.default_rng(seed)
    history = rng.gamma(2.0, 1.0, size=(count, 28, 6)).astype("float32")
    return history, history[:, -7:, 0].mean(axis=1, keepdims=True)


def as_batches(arrays, batch):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch).cache().prefetch(tf.data.AUTOTUNE)


def forecaster():
    net = keras.Sequential([
        keras.Input((28, 6)),
        keras.layers.Conv1D(48, 7, activation="relu", padding="causal"),
        keras.layers.Conv1D(48, 7, activation="relu", padding="causal"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ])
    net.compile(keras.optimizers.Adam(1e-3), loss=pinball(0.8))
    return net


def route(name, seed):
    train = as_batches(crossings(4000, seed), 32).repeat()
    check = as_batches(crossings(6000, seed + 1), 128)
    net = forecaster()
    patience = keras.callbacks.EarlyStopping("val_loss", patience=50)
    log = net.fit(train, steps_per_epoch=5, epochs=16, validation_data=check, callbacks=[patience], verbose=0)
    print(name, min(log.history["val_loss"]))


if __name__ == "__main__":
    keras.utils.set_random_seed(70)
    for name, seed in (("north", 100), ("islands", 200)):
        route(name, seed)
