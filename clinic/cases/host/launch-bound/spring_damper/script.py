"""A physics-informed net for a damped spring: m x'' + c x' + k x = 0."""
import math
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(14)
M, C, K, T = 1.0, 0.4, 4.0, 6.0

net = keras.Sequential([
    keras.Input((1,)),
    keras.layers.Dense(24, activation="tanh"),
    keras.layers.Dense(24, activation="tanh"),
    keras.layers.Dense(24, activation="tanh"),
    keras.layers.Dense(1),
])
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(net.trainable_variables)
times = tf.constant(np.linspace(0, T, 64, dtype="float32")[:, None])
origin = tf.zeros((1, 1))


@tf.function
def step():
    with tf.GradientTape() as tape:
        with tf.GradientTape() as outer:
            outer.watch(times)
            with tf.GradientTape() as inner:
                inner.watch(times)
                x = net(times)
            v = inner.gradient(x, times)
        a = outer.gradient(v, times)
        residual = M * a + C * v + K * x
        with tf.GradientTape() as at_rest:
            at_rest.watch(origin)
            x0 = net(origin)
        v0 = at_rest.gradient(x0, origin)
        loss = tf.reduce_mean(residual ** 2) + 20 * tf.reduce_sum((x0 - 1) ** 2) + 20 * tf.reduce_sum(v0 ** 2)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss


loss = step()
t0 = time.time()
for i in range(1, 5000):
    loss = step()
    if i % 1000 == 0:
        print(i, float(loss))
print(f"{1000 * (time.time() - t0) / 5000:.3f} ms a step")

w = math.sqrt(K / M - (C / 2 / M) ** 2)
exact = np.exp(-C / 2 / M * times.numpy()) * np.cos(w * times.numpy())
print("error", float(np.abs(net(times).numpy() - exact).max()))
