import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
rows = [[0.5 for _ in range(99)] for _ in range(512)]
w = tf.Variable(tf.zeros((99, 1)))
optimizer = keras.optimizers.SGD(0.01)


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss


rows_tensor = tf.constant(rows, dtype=tf.float32)
for epoch in range(4):
    for i in range(0, 512, 32):
        x = rows_tensor[i : i + 32]
        loss = step(x)
