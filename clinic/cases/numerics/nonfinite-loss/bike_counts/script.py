"""Bicycles per hour at a counter: a Poisson loss written by hand, in a loop that runs op by op."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(11)
x = rng.normal(size=(4096, 24)).astype("float32")
rate = np.maximum(x[:, 0] + 0.5 * x[:, 1] + 2.0, 0.0)
y = rng.poisson(rate).astype("float32")

net = tf.keras.Sequential([
    tf.keras.layers.Input((24,)),
    tf.keras.layers.Dense(32, activation="relu", name="features"),
    tf.keras.layers.Dense(1, activation="relu", name="rate"),
])
opt = tf.keras.optimizers.Adam(0.003)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096, seed=2).batch(64).prefetch(2)

t0, n = time.time(), 0
for epoch in range(4):
    for a, b in ds:
        with tf.GradientTape() as tape:  # slowtrain: ignore[host/eager-step]
            expected = net(a, training=True)[:, 0]
            loss = tf.reduce_mean(expected - b * tf.math.log(expected))
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        n += 1
    print("epoch", epoch, "loss", float(loss))
print("WORK", n * 64)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
