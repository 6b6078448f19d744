import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = tf.random.normal((32, 4))
w = tf.Variable(tf.zeros((4, 1)))


@tf.function
def step(x, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    w.assign_sub(rate * tape.gradient(loss, w))
    return loss


rate = 0.1
for _ in range(20):
    rate = rate * 0.9
    loss = step(x, tf.constant(rate, tf.float32))
