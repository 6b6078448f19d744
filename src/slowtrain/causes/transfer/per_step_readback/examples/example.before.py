import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.rand(256, 4).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(x).batch(32).prefetch(2)
w = tf.Variable(tf.zeros((4, 1)))


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


for epoch in range(4):
    for batch in ds:
        loss = step(batch)
        print(epoch, loss.numpy())
