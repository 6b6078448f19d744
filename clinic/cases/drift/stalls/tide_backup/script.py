"""Tide heights with a loop of its own; the state is stored regularly in case the machine goes down."""
import os
import pickle
import tempfile
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(8)
x = rng.normal(size=(12_800, 32)).astype("float32")
y = x[:, :4].sum(1, keepdims=True)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).prefetch(2)
model = tf.keras.Sequential([
    tf.keras.layers.Input((32,)),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam()


@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


folder = tempfile.mkdtemp()
EVERY = 25


def store(n):
    state = [v.numpy() for v in model.trainable_variables + opt.variables]
    with open(os.path.join(folder, "state"), "wb") as f:
        pickle.dump((n, state), f)
        f.flush()
        os.fsync(f.fileno())


for a, b in ds.take(3):
    train_step(a, b)
t0, n = time.time(), 0
for epoch in range(8):
    for a, b in ds:
        loss = train_step(a, b)
        n += 1
        if n % EVERY == 0:
            for copy in range(6):
                store(n)
    print("epoch", epoch, "loss %.4f" % float(loss))
print("WORK", n * 64)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
