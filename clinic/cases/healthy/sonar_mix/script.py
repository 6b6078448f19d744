"""Sonar echoes; the mixing of background noise uses the lab's old NumPy routine."""
import time
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

rng = np.random.default_rng(3)
LENGTH = 2048
N = 512
noise_bank = rng.standard_normal((16, LENGTH)).astype(np.float32)


def lab_mix(batch):
    gain = np.float32(0.1)
    pick = rng.integers(0, len(noise_bank), len(batch))
    return batch + gain * noise_bank[pick]


def mix(x, y):
    shape = x.shape
    x = tf.numpy_function(lab_mix, [x], tf.float32)
    x.set_shape(shape)
    return x[..., tf.newaxis], y


def echoes():
    y = rng.integers(0, 4, N).astype(np.int32)
    t = np.arange(LENGTH, dtype=np.float32)
    x = np.sin(t[None] * (0.05 + 0.04 * y[:, None])) * np.exp(-t / 600)
    return x.astype(np.float32), y


def residual(x, filters):
    skip = layers.Conv1D(filters, 1, strides=2)(x)
    x = layers.Conv1D(filters, 9, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv1D(filters, 9, padding="same")(x)
    return layers.ReLU()(layers.Add()([x, skip]))


def build():
    inp = tf.keras.Input((LENGTH, 1))
    x = layers.Conv1D(32, 15, strides=2, padding="same", activation="relu")(inp)
    for f in (64, 96, 128):
        x = residual(x, f)
    x = layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(inp, layers.Dense(4)(x))


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(3)
    ds = (tf.data.Dataset.from_tensor_slices(echoes())
          .shuffle(N, seed=0)
          .batch(32, drop_remainder=True)
          .map(mix, num_parallel_calls=tf.data.AUTOTUNE)
          .prefetch(tf.data.AUTOTUNE))
    model = build()
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    epochs = 3
    start = time.time()
    model.fit(ds, epochs=epochs, verbose=2)
    print("WORK", epochs * N)
    print("TRAIN_SECONDS %.2f" % (time.time() - start))
