"""Defect classifier in a loop by hand; loss and accuracy of every step go into a list."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
WIDTH, BATCH, STEPS = (128, 128, 200) if SMALL else (2048, 1024, 1200)

rng = np.random.default_rng(4)
features = rng.random((8 * BATCH, 256), dtype="float32")
defect = rng.integers(0, 12, 8 * BATCH)

net = tf.keras.Sequential([
    tf.keras.Input((256,)),
    *[tf.keras.layers.Dense(WIDTH, activation="relu") for _ in range(4)],
    tf.keras.layers.Dense(12),
])
optimizer = tf.keras.optimizers.Adam(1e-4)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(jit_compile=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        scores = net(x, training=True)
        loss = loss_of(y, scores)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss, scores


device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
data = tf.data.Dataset.from_tensor_slices((features, defect)).batch(BATCH).cache().repeat()
data = data.apply(tf.data.experimental.prefetch_to_device(device, 4))
source = iter(data)
train_step(*next(source))
losses, hits = [], []
t0 = time.perf_counter()
for step in range(STEPS):
    x, y = next(source)
    loss, scores = train_step(x, y)
    losses.append(float(loss))
    hits.append(np.mean(np.argmax(scores.numpy(), axis=1) == y.numpy()))
    if step % 200 == 0:
        print(step, np.mean(losses[-200:]), np.mean(hits[-200:]))
print("last", losses[-1])
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
