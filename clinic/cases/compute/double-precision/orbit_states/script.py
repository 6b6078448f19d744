"""Orbit prediction with weights kept in plain tf.Variables."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
state = rng.normal(size=(4096, 300))
target = np.tanh(state[:, :60])
sizes = [300, 600, 600, 60]
weights = [tf.Variable(rng.normal(size=(a, b)) / np.sqrt(a)) for a, b in zip(sizes, sizes[1:])]
biases = [tf.Variable(np.zeros(b)) for b in sizes[1:]]


def forward(x):
    for w, b in zip(weights[:-1], biases[:-1]):
        x = tf.nn.relu(x @ w + b)
    return x @ weights[-1] + biases[-1]


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(x) - y))
    grads = tape.gradient(loss, weights + biases)
    for v, g in zip(weights + biases, grads):
        v.assign_sub(0.05 * g)
    return loss


ds = tf.data.Dataset.from_tensor_slices((state, target)).batch(128).cache().prefetch(tf.data.AUTOTUNE)
for x, y in ds:
    step(x, y)
begin = time.time()
for epoch in range(10):
    for x, y in ds:
        loss = step(x, y)
    if epoch % 3 == 0:
        print(epoch, float(loss))
print("WORK", 10 * 4096)
print("TRAIN_SECONDS %.3f" % (time.time() - begin))
