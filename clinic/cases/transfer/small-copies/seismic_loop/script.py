"""Phase picking in seismograms: a loop by hand over batches that lie in ordinary host memory."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
COUNT, LENGTH, BATCH, STEPS = (256, 600, 32, 60) if SMALL else (2048, 6000, 256, 400)

rng = np.random.default_rng(2)
waves = rng.standard_normal((COUNT, LENGTH, 6), dtype="float32")
arrival = rng.random((COUNT, 2), dtype="float32")

picker = tf.keras.Sequential([
    tf.keras.Input((LENGTH, 6)),
    tf.keras.layers.Conv1D(32, 16, strides=8, activation="relu"),
    tf.keras.layers.Conv1D(64, 8, strides=8, activation="relu"),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(2),
])
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function(jit_compile=True)
def train_step(wave, time_of):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(picker(wave, training=True) - time_of))
    gradients = tape.gradient(loss, picker.trainable_variables)
    optimizer.apply_gradients(zip(gradients, picker.trainable_variables))
    return loss


batches = tf.data.Dataset.from_tensor_slices((waves, arrival)).batch(BATCH, drop_remainder=True).cache().repeat()
batches = batches.prefetch(2)
source = iter(batches)
train_step(*next(source))
t0 = time.perf_counter()
for step in range(STEPS):
    wave, time_of = next(source)
    loss = train_step(wave, time_of)
    if step % 100 == 0:
        print(step, float(loss))
print("last", float(loss))
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
