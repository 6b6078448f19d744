"""Physics-informed network for a reaction-diffusion equation u_t = D u_xx + u (1 - u) on the unit square of (t, x)."""
import time

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(17)
DIFFUSION = 0.05


def collocation(n):
    return rng.uniform(0.0, 1.0, size=(n, 2))


def glorot(fan_in, fan_out):
    return rng.normal(0.0, np.sqrt(2.0 / (fan_in + fan_out)), size=(fan_in, fan_out))


class Field(tf.Module):
    """u(t, x), kept in the type of the points it is evaluated on."""

    def __init__(self, sizes, like):
        super().__init__()
        self.w = [tf.Variable(glorot(a, b), dtype=like.dtype) for a, b in zip(sizes, sizes[1:])]
        self.b = [tf.Variable(np.zeros(b), dtype=like.dtype) for b in sizes[1:]]

    def __call__(self, p):
        for w, b in zip(self.w[:-1], self.b[:-1]):
            p = tf.tanh(p @ w + b)
        return p @ self.w[-1] + self.b[-1]


points = tf.constant(collocation(1536))
field = Field([2, 128, 128, 128, 1], like=points)
opt = tf.keras.optimizers.Adam(1e-3)
initial = tf.stack([tf.zeros_like(points[:256, 1]), points[:256, 1]], 1)
bump = tf.exp(-40.0 * tf.square(initial[:, 1:] - 0.5))


@tf.function
def step():
    with tf.GradientTape() as outer:
        with tf.GradientTape() as second:
            second.watch(points)
            with tf.GradientTape() as first:
                first.watch(points)
                u = field(points)
            du = first.gradient(u, points)
            ux = du[:, 1:]
        uxx = second.gradient(ux, points)[:, 1:]
        residual = du[:, :1] - DIFFUSION * uxx - u * (1.0 - u)
        loss = tf.reduce_mean(tf.square(residual)) + tf.reduce_mean(tf.square(field(initial) - bump))
    grads = outer.gradient(loss, field.trainable_variables)
    opt.apply_gradients([(g, v) for g, v in zip(grads, field.trainable_variables) if g is not None])
    return loss


t0 = time.perf_counter()
for i in range(1, 121):
    value = step()
    if i % 30 == 0:
        print(f"{i:4d}  residual loss {float(value):.5f}  {time.perf_counter() - t0:.1f}s")
