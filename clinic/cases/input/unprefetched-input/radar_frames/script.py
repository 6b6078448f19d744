"""Rain estimation from radar sweeps that are downloaded from the station block by block."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

FRAMES, BATCH, STEPS, SAMPLES = 640, 16, 40, 192
path = os.path.join(tempfile.gettempdir(), "radar_%d.i2" % SAMPLES)
if not os.path.exists(path):
    np.random.default_rng(0).normal(0, 500, (FRAMES, STEPS, SAMPLES)).astype("int16").tofile(path)


def download(block):
    """The station's server, replayed from a local copy at its usual 30 MB/s."""
    size = BATCH * STEPS * SAMPLES * 2
    with open(path, "rb") as f:
        f.seek(block * size)
        data = f.read(size)
    time.sleep(len(data) / 30e6)
    return np.frombuffer(data, "int16").reshape(BATCH, STEPS, SAMPLES)


inputs = tf.keras.Input((STEPS, SAMPLES))
state = tf.keras.layers.LSTM(24, return_sequences=True)(inputs)
state = tf.keras.layers.LSTM(24, return_sequences=True)(state)
state = tf.keras.layers.LSTM(24)(state)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(state))
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def batches():
    for block in range(FRAMES // BATCH):
        x = download(block).astype("float32") / 500.0
        yield x, x[:, -1, :1]


train_step(tf.zeros((BATCH, STEPS, SAMPLES)), tf.zeros((BATCH, 1)))
t0, n = time.perf_counter(), 0
for epoch in range(6):
    for x, y in batches():
        loss = train_step(tf.constant(x), tf.constant(y))
        n += 1
    print("epoch", epoch, "loss %.4f" % float(loss))
print("WORK", n * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
