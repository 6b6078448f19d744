"""Physics-informed network for a vibrating drum skin (wave equation in polar symmetry).

u_tt = c^2 (u_rr + u_r / r),  u(1, t) = 0,  u(r, 0) = 1 - r^2,  u_t(r, 0) = 0
"""
import numpy as np
import tensorflow as tf

C = 1.0
LAYERS = [2, 96, 96, 96, 1]
COLLOCATION = 1024

np.random.seed(1234)
tf.random.set_seed(1234)


class PINN:
    def __init__(self, sizes):
        self.weights, self.biases = [], []
        for fan_in, fan_out in zip(sizes[:-1], sizes[1:]):
            std = np.sqrt(2.0 / (fan_in + fan_out))
            self.weights.append(tf.Variable(std * np.random.randn(fan_in, fan_out)))
            self.biases.append(tf.Variable(np.zeros((1, fan_out))))

    @property
    def variables(self):
        return self.weights + self.biases

    def __call__(self, r, t):
        h = tf.concat([2 * r - 1, t - 1], axis=1)
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            h = tf.tanh(h @ w + b)
        return h @ self.weights[-1] + self.biases[-1]


def residual(net, r, t):
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([r, t])
        with tf.GradientTape(persistent=True) as inner:
            inner.watch([r, t])
            u = net(r, t)
        u_r = inner.gradient(u, r)
        u_t = inner.gradient(u, t)
    u_rr = outer.gradient(u_r, r)
    u_tt = outer.gradient(u_t, t)
    return r * u_tt - C ** 2 * (r * u_rr + u_r)


net = PINN(LAYERS)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(net.variables)

r_f = np.random.rand(COLLOCATION, 1)
t_f = 2 * np.random.rand(COLLOCATION, 1)
r_0 = np.random.rand(256, 1)
t_b = 2 * np.random.rand(256, 1)
points = [tf.constant(p) for p in (r_f, t_f, r_0, t_b)]


@tf.function
def train_step(r, t, r0, tb):
    with tf.GradientTape() as tape:
        physics = tf.reduce_mean(residual(net, r, t) ** 2)
        start = tf.reduce_mean((net(r0, tf.zeros_like(r0)) - (1 - r0 ** 2)) ** 2)
        rim = tf.reduce_mean(net(tf.ones_like(tb), tb) ** 2)
        loss = physics + 10 * start + 10 * rim
    grads = tape.gradient(loss, net.variables)
    optimizer.apply_gradients(zip(grads, net.variables))
    return loss


for it in range(1, 241):
    loss = train_step(*points)
    if it % 60 == 0:
        print(f"It {it:4d}  loss {float(loss):.4e}")
