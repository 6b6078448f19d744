# Fault classifier for a test rig: six accelerometer channels, windows drawn from a long recording.
import math
import random
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

WINDOW = 256
CHANNELS = 6
BATCH = 64
STEPS = 2000
FAULTS = ["healthy", "inner race", "outer race", "ball"]

keras.utils.set_random_seed(21)


def acquire(seconds=25, rate=1000):
    """Readings as the data logger hands them over: one list per tick, and the segment's condition."""
    rng = np.random.default_rng(5)
    n = seconds * rate
    t = np.arange(n) / rate
    condition = np.repeat(rng.integers(0, len(FAULTS), n // 500), 500)
    carrier = np.sin(2 * math.pi * 29.5 * t)
    knock = np.array([0.0, 162.2, 107.4, 141.2])[condition]
    burst = np.where(condition > 0, np.maximum(0, np.sin(2 * math.pi * np.cumsum(knock) / rate)) ** 8, 0.0)
    gains = rng.uniform(0.3, 1.0, (CHANNELS, 2))
    signal = np.stack([g[0] * carrier + g[1] * burst for g in gains], axis=1)
    signal += rng.normal(0, 0.35, signal.shape)
    return signal.tolist(), condition.tolist()


readings, condition = acquire()


def valid_starts():
    starts = []
    for s in range(0, len(readings) - WINDOW, 10):
        if condition[s] == condition[s + WINDOW - 1]:
            starts.append(s)
    return starts


def build():
    return keras.Sequential([
        keras.Input((WINDOW, CHANNELS)),
        layers.Conv1D(16, 7, strides=4, padding="same", activation="relu"),
        layers.Conv1D(32, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(48, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(len(FAULTS)),
    ])


def make_train_step(model, optimizer):
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), y)
        return loss, tf.reduce_mean(tf.cast(hits, tf.float32))

    return train_step


model = build()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
train_step = make_train_step(model, optimizer)
starts = valid_starts()
picker = random.Random(77)
print(len(starts), "windows of", WINDOW, "ticks")

t0 = time.perf_counter()
for step in range(1, STEPS + 1):
    chosen = picker.sample(starts, BATCH)
    x = tf.constant([readings[s:s + WINDOW] for s in chosen], dtype=tf.float32)
    y = tf.constant([condition[s] for s in chosen], dtype=tf.int32)
    loss, acc = train_step(x, y)
    if step % 500 == 0:
        print("step %d loss %.4f acc %.3f" % (step, loss, acc))
elapsed = time.perf_counter() - t0

print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % elapsed)
