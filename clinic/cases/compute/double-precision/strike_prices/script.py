"""Option prices by a plain tf.Module network (no Keras)."""
import time

import numpy as np
import tensorflow as tf

np.random.seed(10)
tf.random.set_seed(10)


class Linear(tf.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.w = tf.Variable(np.random.randn(n_in, n_out) * np.sqrt(2.0 / n_in))
        self.b = tf.Variable(np.zeros(n_out))

    def __call__(self, x):
        return tf.matmul(x, self.w) + self.b


class Pricer(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Linear(8, 512), Linear(512, 512), Linear(512, 512), Linear(512, 1)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = tf.nn.relu(layer(x))
        return self.layers[-1](x)


def market(n):
    z = np.random.uniform(0.5, 1.5, (n, 8))
    price = np.maximum(z[:, 0] - z[:, 1] * np.exp(-0.05 * z[:, 2]), 0) + 0.1 * z[:, 3] ** 2
    return z, price[:, None]


model = Pricer()
RATE = 1e-3


@tf.function
def sgd(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        v.assign_sub(RATE * g)
    return loss


x, y = market(16384)
batches = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(512, drop_remainder=True).prefetch(4)
t0 = time.time()
for k, (bx, by) in enumerate(batches.take(160)):
    loss = sgd(bx, by)
    if k % 40 == 0:
        print("batch", k, "mse", float(loss))
print("done", round(time.time() - t0, 2))
