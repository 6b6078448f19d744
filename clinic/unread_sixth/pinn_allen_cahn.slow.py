# Allen-Cahn:  u_t = d * u_xx + 5 (u - u^3),  u(0, x) = x^2 cos(pi x),  periodic in x
import argparse

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--iters", type=int, default=20000)
parser.add_argument("--n-f", type=int, default=20000)
parser.add_argument("--n-0", type=int, default=512)
parser.add_argument("--n-b", type=int, default=200)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--depth", type=int, default=5)
parser.add_argument("--out", default="allen_cahn.weights.h5")
args = parser.parse_args()

np.random.seed(1234)
tf.random.set_seed(1234)


class MLP(tf.keras.Model):
    def __init__(self, width, depth):
        super().__init__()
        self.hidden = [tf.keras.layers.Dense(width, activation="tanh",
                                             kernel_initializer="glorot_normal") for _ in range(depth)]
        self.head = tf.keras.layers.Dense(1)

    def call(self, tx):
        h = tx
        for layer in self.hidden:
            h = layer(h)
        return self.head(h)


class AllenCahn:
    def __init__(self, net, diffusion=1e-4):
        self.net = net
        self.d = diffusion
        self.w_ic = 100.0
        lr = tf.keras.optimizers.schedules.ExponentialDecay(1e-3, 2000, 0.9)
        self.opt = tf.keras.optimizers.Adam(lr)

        t = np.random.rand(args.n_f, 1)
        x = 2.0 * np.random.rand(args.n_f, 1) - 1.0
        self.t_f = tf.constant(t, tf.float32)
        self.x_f = tf.constant(x, tf.float32)

        x0 = np.linspace(-1, 1, args.n_0)[:, None]
        self.tx0 = tf.constant(np.hstack([np.zeros_like(x0), x0]), tf.float32)
        self.u0 = tf.constant(x0 ** 2 * np.cos(np.pi * x0), tf.float32)

        tb = np.random.rand(args.n_b, 1)
        self.t_b = tf.constant(tb, tf.float32)
        self.x_lo = -tf.ones_like(self.t_b)
        self.x_hi = tf.ones_like(self.t_b)

    def u(self, t, x):
        return self.net(tf.concat([t, x], axis=1))

    def residual(self):
        with tf.GradientTape() as outer:
            outer.watch(self.x_f)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([self.t_f, self.x_f])
                u = self.u(self.t_f, self.x_f)
            u_t = inner.gradient(u, self.t_f)
            u_x = inner.gradient(u, self.x_f)
        u_xx = outer.gradient(u_x, self.x_f)
        del inner
        return u_t - self.d * u_xx - 5.0 * (u - u ** 3)

    def boundary(self):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([self.x_lo, self.x_hi])
            u_lo = self.u(self.t_b, self.x_lo)
            u_hi = self.u(self.t_b, self.x_hi)
        du_lo = tape.gradient(u_lo, self.x_lo)
        du_hi = tape.gradient(u_hi, self.x_hi)
        return tf.reduce_mean(tf.square(u_lo - u_hi)) + tf.reduce_mean(tf.square(du_lo - du_hi))

    def train_step(self):
        with tf.GradientTape() as tape:
            loss_f = tf.reduce_mean(tf.square(self.residual()))
            loss_0 = tf.reduce_mean(tf.square(self.net(self.tx0) - self.u0))
            loss_b = self.boundary()
            loss = loss_f + self.w_ic * loss_0 + loss_b
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss, loss_f, loss_0, loss_b

    def fit(self, iters):
        for i in range(iters):
            losses = self.train_step()
            if i % 500 == 0:
                total, f, ic, bc = [float(v) for v in losses]
                print(f"{i:6d}  total {total:.3e}  pde {f:.3e}  ic {ic:.3e}  bc {bc:.3e}")


net = MLP(args.width, args.depth)
net(tf.zeros((1, 2)))
problem = AllenCahn(net)
problem.opt.build(net.trainable_variables)
problem.fit(args.iters)

xs = np.linspace(-1, 1, 201)
ts = np.linspace(0, 1, 101)
T, X = np.meshgrid(ts, xs, indexing="ij")
grid = np.stack([T.ravel(), X.ravel()], axis=1).astype("float32")
u = net(tf.constant(grid)).numpy().reshape(T.shape)
print("u range on grid:", u.min(), u.max())
np.save("allen_cahn_u.npy", u)
net.save_weights(args.out)
