"""24 h ahead forecast of the flow through a sluice, from windows of four gauges."""
import time

import numpy as np
import tensorflow as tf

HISTORY, AHEAD = 72, 24
HOURS = 26_000
EPOCHS, STEPS, BATCH = 8, 30, 64

tf.keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
hour = np.arange(HOURS)
season = np.sin(hour * 2 * np.pi / 8766)[:, None] + 0.4 * np.sin(hour * 2 * np.pi / 24)[:, None]
gauges = (season * rng.uniform(0.5, 1.5, 4) + 0.02 * rng.normal(size=(HOURS, 4)).cumsum(0)).astype("float32")
gauges = (gauges - gauges.mean(0)) / gauges.std(0)
table = tf.constant(gauges)
LAST = HOURS - HISTORY - AHEAD


def window(i):
    piece = table[i:i + HISTORY]
    target = table[i + HISTORY + AHEAD - 1, 0]
    slope = piece[-1] - piece[0]
    level = tf.reduce_mean(piece, 0)
    return tf.ensure_shape(piece - level, (HISTORY, 4)), tf.concat([level, slope], 0), target


def batches():
    ds = tf.data.Dataset.range(LAST)
    ds = ds.map(window, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(LAST, seed=6)
    return ds.batch(BATCH).take(STEPS).prefetch(2)


past = tf.keras.Input((HISTORY, 4))
extra = tf.keras.Input((8,))
x = tf.keras.layers.Conv1D(32, 6, strides=3, activation="relu")(past)
x = tf.keras.layers.Conv1D(32, 4, strides=2, activation="relu")(x)
x = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(x), extra])
x = tf.keras.layers.Dense(48, activation="relu")(x)
model = tf.keras.Model([past, extra], tf.keras.layers.Dense(1)(x))
optimizer = tf.keras.optimizers.Adam(1e-3)
huber = tf.keras.losses.Huber()


@tf.function
def train(piece, more, target):
    with tf.GradientTape() as tape:
        loss = huber(target[:, None], model([piece, more], training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


data = batches()
t0 = time.perf_counter()
for epoch in range(EPOCHS):
    total = 0.0
    for piece, more, target in data:
        total += train(piece, more, target)
    print(f"epoch {epoch} loss {float(total) / STEPS:.5f}")
print("WORK", EPOCHS * STEPS * BATCH)
print(f"TRAIN_SECONDS {time.perf_counter() - t0:.3f}")
