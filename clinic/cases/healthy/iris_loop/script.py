"""Flower measurements with a custom training loop."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 256)).astype("float32")
y = rng.integers(0, 3, 20_000)
ds = (tf.data.Dataset.from_tensor_slices((x, y))
      .shuffle(20_000)
      .batch(200, drop_remainder=True)
      .prefetch(tf.data.AUTOTUNE))

model = tf.keras.Sequential([
    tf.keras.layers.Input((256,)),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(3),
])
opt = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(1e-3, 100, 0.9))
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = xent(b, model(a, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for a, b in ds.take(2):
    train_step(a, b)
t0, step = time.perf_counter(), 0
for epoch in range(12):
    for a, b in ds:
        loss = train_step(a, b)
        step += 1
        if step % 100 == 0:
            print("step", step, "loss", float(loss))
print("WORK", step * 200)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
