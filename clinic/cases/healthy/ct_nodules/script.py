"""Lung nodule patches from CT (16 slices of 96x96), malignant or not; slices are the channels."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(17)
rng = np.random.default_rng(17)
N, SIDE, SLICES, BATCH, EPOCHS = 128, 96, 16, 4, 4


def synthetic_nodules(n):
    y = rng.integers(0, 2, n).astype("float32")
    ax = np.arange(SIDE, dtype="float32") - SIDE / 2
    az = 3 * (np.arange(SLICES, dtype="float32") - SLICES / 2)
    d2 = ax[:, None, None] ** 2 + ax[None, :, None] ** 2 + az[None, None, :] ** 2
    vol = np.empty((n, SIDE, SIDE, SLICES), "float32")
    for i in range(n):
        r = 15 + 9 * y[i] + rng.normal(0, 2)
        vol[i] = np.exp(-d2 / (r * r)) + 0.2 * rng.standard_normal(d2.shape, dtype="float32")
    return vol, y


def flip_axes(v):
    for axis in (1, 2, 3):
        if np.random.rand() < 0.5:
            v = np.flip(v, axis)
    return np.ascontiguousarray(v)


def augment(v, y):
    out = tf.numpy_function(flip_axes, [v], tf.float32)
    out.set_shape((BATCH, SIDE, SIDE, SLICES))
    return out, y


class LearningRateLog(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        lr = float(self.model.optimizer.learning_rate.numpy())
        norm = np.sqrt(sum((w ** 2).sum() for w in self.model.get_weights()))
        print(f"  lr {lr:.5f}  |w| {norm:.2f}")


def nodule_net():
    inp = keras.Input((SIDE, SIDE, SLICES))
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(inp)
    for filters in (64, 128):
        x = layers.MaxPooling2D()(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x))


x, y = synthetic_nodules(N)
ds = (tf.data.Dataset.from_tensor_slices((x, y))
      .shuffle(N)
      .batch(BATCH, drop_remainder=True)
      .map(augment, num_parallel_calls=1)
      .prefetch(2))

net = nodule_net()
net.compile(keras.optimizers.Adam(1e-3),
            keras.losses.BinaryCrossentropy(from_logits=True))
t0 = time.time()
net.fit(ds, epochs=EPOCHS, verbose=2,
        callbacks=[LearningRateLog(), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=2)])
took = time.time() - t0
print("WORK", N // BATCH * EPOCHS)
print("TRAIN_SECONDS %.3f" % took)
