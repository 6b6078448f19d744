"""Fraud detection with a logistic loss of our own."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
x = rng.normal(size=(6400, 40)).astype("float32")
y = (x[:, :4].sum(1) > 0).astype("float32")

net = tf.keras.Sequential([
    tf.keras.layers.Input((40,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam(0.001)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        p = tf.sigmoid(net(a)[:, 0])
        loss = -tf.reduce_mean(b * tf.math.log(p) + (1.0 - b) * tf.math.log(1.0 - p))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(6400, seed=1).batch(32).prefetch(2)
for a, b in ds.take(1):
    step(a, b)
t0, n = time.time(), 0
for epoch in range(26):
    for a, b in ds:
        loss = step(a, b)
        n += 1
    print("epoch", epoch, "loss", float(loss))
print("WORK", n * 32)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
