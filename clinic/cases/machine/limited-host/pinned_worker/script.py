"""Forest inventory regression, started by a job script that pins each worker."""
import os
import time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np
import tensorflow as tf

plots = np.random.rand(12_000, 600).astype("float32")
biomass = np.random.rand(12_000, 1).astype("float32")

model = tf.keras.Sequential([
    tf.keras.layers.Input((600,)),
    tf.keras.layers.Dense(700, activation="relu"),
    tf.keras.layers.Dense(700, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.SGD(0.01)
mse = tf.keras.losses.MeanSquaredError()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = mse(y, model(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices((plots, biomass)).batch(120).prefetch(tf.data.AUTOTUNE)
for x, y in ds.take(3):
    step(x, y)
tic = time.perf_counter()
for epoch in range(6):
    for x, y in ds:
        loss = step(x, y)
    print(epoch, "%.4f" % float(loss))
print("WORK", 6 * len(plots))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - tic))
