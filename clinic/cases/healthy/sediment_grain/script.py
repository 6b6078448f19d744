"""Grain-size class of river sediment from thin-section pictures."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

NAMES = ["clay", "silt", "fine sand", "sand", "gravel"]


def sections(n, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(NAMES), n)
    x = np.empty((n, 64, 64, 3), np.uint8)
    for i, k in enumerate(y):
        grain = 2 ** int(k)
        tile = rng.integers(40, 220, (64 // grain, 64 // grain, 3), dtype=np.uint8)
        x[i] = tile.repeat(grain, 0).repeat(grain, 1)
    return x, y.astype(np.int32)


def normalise(x, y):
    return tf.cast(x, tf.float32) / 255.0, y


keras.utils.set_random_seed(1)
x, y = sections(640)
tally = {name: 0 for name in NAMES}
for label in y:
    tally[NAMES[label]] += 1
print(tally)

ds = (tf.data.Dataset.from_tensor_slices((x, y))
      .shuffle(len(x)).batch(64, drop_remainder=True)
      .map(normalise, num_parallel_calls=tf.data.AUTOTUNE)
      .prefetch(tf.data.AUTOTUNE))

model = keras.Sequential([
    layers.Input((64, 64, 3)),
    layers.Conv2D(32, 5, strides=2, padding="same", activation="relu"),
    layers.Conv2D(96, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(128, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(len(NAMES)),
])
model.compile(keras.optimizers.SGD(0.02, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

t0 = time.perf_counter()
hist = model.fit(ds, epochs=3, verbose=2)
print("WORK", 3 * 640)
print("TRAIN_SECONDS", round(time.perf_counter() - t0, 3))
