import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.rand(512, 48, 48).astype("float32")
w = tf.Variable(tf.ones((48, 48)))
data = tf.data.Dataset.from_tensor_slices(x).batch(32)


@tf.function
def step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((batch * w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


squares = np.zeros((48, 48))
for epoch in range(4):
    for batch in data:
        loss = step(batch)
        weights = w.numpy()
        squares[...] += weights ** 2
