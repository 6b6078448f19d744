"""Phase of the rowing stroke from boat and oar sensors (8 channels, 100 Hz)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PHASES, LENGTH, CHANNELS, BATCH, EPOCHS = 4, 256, 8, 64, 5


def strokes(n=1920, seed=6):
    rng = np.random.default_rng(seed)
    phase = rng.integers(0, PHASES, n)
    t = np.linspace(0, 2 * np.pi, LENGTH, dtype="float32")
    shift = (phase * np.pi / 2).astype("float32")[:, None, None]
    freq = np.arange(1, CHANNELS + 1, dtype="float32")[None, None]
    x = np.sin(t[None, :, None] * freq + shift)
    return (x + rng.normal(0, .5, x.shape)).astype("float32"), phase.astype("int32")


def mount_offset(x):
    """The sensors are clamped on by hand: every stroke gets its own small offset."""
    return x + np.random.normal(0, 0.05, (len(x), 1, CHANNELS)).astype("float32")


def with_offset(x, y):
    z = tf.numpy_function(mount_offset, [x], tf.float32)
    return tf.ensure_shape(z, (BATCH, LENGTH, CHANNELS)), y


def stroke_net():
    return keras.Sequential([
        layers.Input((LENGTH, CHANNELS)),
        layers.Conv1D(64, 7, padding="same", activation="relu"),
        layers.Conv1D(128, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(128, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(128, 5, padding="same", activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(PHASES),
    ])


if __name__ == "__main__":
    keras.utils.set_random_seed(6)
    x, y = strokes()
    train = (tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(len(x))
             .batch(BATCH, drop_remainder=True).map(with_offset, num_parallel_calls=1)
             .prefetch(tf.data.AUTOTUNE))
    model = stroke_net()
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    start = time.time()
    model.fit(train, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * (len(x) // BATCH) * BATCH)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
