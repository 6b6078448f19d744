"""Support tickets in batches as long as their longest one: almost each has a shape of its own."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
LENGTHS, STEPS, BATCH = (12, 60, 16) if SMALL else (40, 600, 64)

rng = np.random.default_rng(19)
net = tf.keras.Sequential([
    tf.keras.Input((None,), dtype="int32"),
    tf.keras.layers.Embedding(5000, 96),
    tf.keras.layers.Conv1D(96, 5, padding="same", activation="relu"),
    tf.keras.layers.Conv1D(96, 5, padding="same", activation="relu"),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(7),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(net.trainable_variables)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(words, queue):
    with tf.GradientTape() as tape:
        loss = loss_of(queue, net(words, training=True))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss


t0 = time.perf_counter()
for step in range(STEPS):
    longest = 24 + int(rng.integers(0, LENGTHS))
    words = rng.integers(0, 5000, (BATCH, longest)).astype("int32")
    queue = rng.integers(0, 7, BATCH)
    loss = train_step(words, queue)
    if step % 50 == 0:
        print(step, longest, float(loss))
print("last", float(loss))
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
