"""Twelve-lead heart recordings, float32 as measured, kept in memory in batches."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
COUNT, LENGTH, BATCH, EPOCHS = (256, 1000, 32, 6) if SMALL else (2048, 5000, 128, 25)

rng = np.random.default_rng(1)
signals = rng.standard_normal((COUNT, LENGTH, 12), dtype="float32")
rhythm = rng.integers(0, 5, COUNT)

train = tf.data.Dataset.from_tensor_slices((signals, rhythm))
train = train.batch(BATCH, drop_remainder=True)
train = train.cache().prefetch(2)

inputs = tf.keras.Input((LENGTH, 12))
x = tf.keras.layers.Conv1D(32, 16, strides=8, activation="relu")(inputs)
x = tf.keras.layers.Conv1D(64, 8, strides=4, activation="relu")(x)
x = tf.keras.layers.GlobalMaxPooling1D()(x)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(5)(x))
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * COUNT)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
