"""Inverse gravimetry: from a ship's gravity profile to the rock under the seabed.

A learned inverse after the textbook forward model: 128 buried cells with a
density contrast, 256 readings at the surface, point-mass kernel.  The net is
a plain tanh MLP, kept in bare tf.Module so that the geophysics group can read
it without knowing Keras.
"""
import time

import numpy as np
import tensorflow as tf

READINGS = 256
CELLS = 128
WIDTH = 640
N_PROFILES = 20_480
BATCH = 256
EPOCHS = 2

rng = np.random.default_rng(77)
tf.random.set_seed(77)


def forward_kernel():
    """G[i, j]: pull at reading i of a unit contrast in cell j (scaled)."""
    ship = np.linspace(0.0, 100.0, READINGS)
    cell_x = np.tile(np.linspace(2.0, 98.0, 32), 4)
    cell_z = np.repeat([4.0, 8.0, 14.0, 22.0], 32)
    r2 = (ship[:, None] - cell_x[None, :]) ** 2 + cell_z[None, :] ** 2
    return cell_z / r2 ** 1.5


def profiles(n):
    coarse = rng.normal(size=(n, 16))
    contrast = np.repeat(coarse, CELLS // 16, axis=1)
    contrast += 0.2 * rng.normal(size=(n, CELLS))
    gravity = contrast @ forward_kernel().T
    gravity /= gravity.std()
    gravity += 0.02 * rng.normal(size=gravity.shape)
    return gravity, contrast


class Affine(tf.Module):
    def __init__(self, n_in, n_out, name=None):
        super().__init__(name=name)
        scale = np.sqrt(1.0 / n_in)
        self.w = tf.Variable(rng.normal(0.0, scale, size=(n_in, n_out)), name="w")
        self.b = tf.Variable(np.zeros(n_out), name="b")

    def __call__(self, x):
        return tf.matmul(x, self.w) + self.b


class InverseNet(tf.Module):
    def __init__(self):
        super().__init__(name="inverse")
        sizes = [READINGS, WIDTH, WIDTH, WIDTH]
        self.hidden = [Affine(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
        self.out = Affine(WIDTH, CELLS)

    def __call__(self, x):
        for layer in self.hidden:
            x = tf.tanh(layer(x))
        return self.out(x)


class Momentum:
    """Heavy ball, as in the lecture notes."""

    def __init__(self, variables, lr, mu=0.9):
        self.variables, self.lr, self.mu = variables, lr, mu
        self.velocity = [tf.Variable(tf.zeros_like(v)) for v in variables]

    def apply(self, grads):
        for v, m, g in zip(self.variables, self.velocity, grads):
            m.assign(self.mu * m + g)
            v.assign_sub(self.lr * m)


gravity, contrast = profiles(N_PROFILES)
print("profiles", gravity.shape, "contrast", contrast.shape)

net = InverseNet()
weights = list(net.trainable_variables)
opt = Momentum(weights, lr=0.02)


@tf.function
def train_step(g, c):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(g) - c))
    opt.apply(tape.gradient(loss, weights))
    return loss


data = tf.data.Dataset.from_tensor_slices((gravity, contrast))
data = data.shuffle(4096, seed=7).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

tic = time.perf_counter()
for epoch in range(EPOCHS):
    losses = [train_step(g, c) for g, c in data]
    print(f"epoch {epoch}: misfit {float(tf.reduce_mean(losses)):.4f}")
toc = time.perf_counter()

test_gravity, test_contrast = profiles(512)
estimate = net(tf.cast(test_gravity, weights[0].dtype)).numpy()
print("explained variance", 1.0 - np.mean((estimate - test_contrast) ** 2) / test_contrast.var())
print(f"TRAIN_SECONDS {toc - tic:.2f}")
