"""Physics-informed network for the 1-D heat equation, without layers."""
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(101)
WIDTHS = [2, 160, 160, 160, 1]
ALPHA = 0.1
STEPS = 100
POINTS = 1500


def glorot(n, m):
    return tf.Variable(rng.normal(0.0, np.sqrt(2.0 / (n + m)), (n, m)))


weights = [glorot(n, m) for n, m in zip(WIDTHS[:-1], WIDTHS[1:])]
biases = [tf.Variable(np.zeros(m)) for m in WIDTHS[1:]]
params = weights + biases


def u(x, t):
    h = tf.concat([x, t], 1)
    for w, b in zip(weights[:-1], biases[:-1]):
        h = tf.tanh(tf.matmul(h, w) + b)
    return tf.matmul(h, weights[-1]) + biases[-1]


def residual(x, t):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch([x, t])
            v = u(x, t)
        v_x = inner.gradient(v, x)
        v_t = inner.gradient(v, t)
    return v_t - ALPHA * outer.gradient(v_x, x)


@tf.function
def gradient_step(x, t, x0, velocity_rate):
    with tf.GradientTape() as tape:
        interior = tf.reduce_mean(residual(x, t) ** 2)
        start = tf.reduce_mean((u(x0, tf.zeros_like(x0)) - tf.sin(np.pi * x0)) ** 2)
        edge = tf.reduce_mean(u(tf.zeros_like(t), t) ** 2) + tf.reduce_mean(u(tf.ones_like(t), t) ** 2)
        loss = interior + 10.0 * start + edge
    for p, m, g in zip(params, momentum, tape.gradient(loss, params)):
        m.assign(0.9 * m + g)
        p.assign_sub(velocity_rate * m)
    return loss


momentum = [tf.Variable(tf.zeros_like(p)) for p in params]
rate = tf.constant(1e-4, tf.float64)
for step in range(STEPS):
    x, t, x0 = (tf.constant(rng.random((POINTS, 1))) for _ in range(3))
    loss = gradient_step(x, t, x0, rate)
    if step % 50 == 0:
        print(step, float(loss))
print("loss", float(loss))
