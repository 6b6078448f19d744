"""Implied-volatility surface regression, ported from an old session-style code base."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
rng = np.random.RandomState(18)


def quotes(n=40000):
    k = rng.uniform(-0.5, 0.5, n); t = rng.uniform(0.05, 2, n); r = rng.normal(0.02, 0.01, n)
    vol = 0.2 + 0.4 * k ** 2 / np.sqrt(t) - 0.1 * k + r
    return np.stack([k, t, r], 1).astype("f"), vol.astype("f")[:, None]


X, Y = quotes()
x = tf.placeholder(tf.float32, [None, 3])
y = tf.placeholder(tf.float32, [None, 1])
w1 = tf.get_variable("w1", [3, 64]); b1 = tf.get_variable("b1", [64], initializer=tf.zeros_initializer())
w2 = tf.get_variable("w2", [64, 64]); b2 = tf.get_variable("b2", [64], initializer=tf.zeros_initializer())
w3 = tf.get_variable("w3", [64, 1])
h = tf.nn.tanh(tf.matmul(tf.nn.tanh(tf.matmul(x, w1) + b1), w2) + b2)
pred = tf.matmul(h, w3)
loss = tf.losses.mean_squared_error(y, pred)
train = tf.train.AdamOptimizer(1e-3).minimize(loss)
tail = tf.abs(pred - y)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(110):
        i = rng.randint(0, len(X), 256)
        feed = {x: X[i], y: Y[i]}
        _, mse, worst = sess.run([train, loss, tf.reduce_max(tail)], feed)
        if step % 20 == 0:
            print("step %d  mse %.5f  worst %.3f" % (step, mse, worst), flush=True)
