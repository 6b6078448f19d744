"""Completing yield curves: a denoising autoencoder whose layers are written out by hand."""
import time
import numpy as np
import tensorflow as tf

tf.random.set_seed(1)
rng = np.random.default_rng(1)

TENORS, HIDDEN, CODE, BATCH = 360, 512, 16, 128


def simulate_curves(n):
    t = np.linspace(0.1, 30, TENORS)
    level, slope, hump = rng.normal(size=(3, n, 1)) * np.array([1.0, 0.7, 0.5])[:, None, None]
    decay = (1 - np.exp(-t / 3)) / (t / 3)
    curves = 3 + level + slope * decay + hump * (decay - np.exp(-t / 3))
    return (curves - curves.mean()) / curves.std()


class Affine:
    def __init__(self, n_in, n_out):
        self.w = tf.Variable(rng.standard_normal((n_in, n_out)) * np.sqrt(2 / n_in))
        self.b = tf.Variable(np.zeros(n_out))

    def __call__(self, x):
        return x @ self.w + self.b


class Momentum:
    def __init__(self, variables, rate=0.02, mu=0.9):
        self.variables, self.rate, self.mu = variables, rate, mu
        self.speed = [tf.Variable(tf.zeros_like(v)) for v in variables]

    def apply(self, grads):
        for v, s, g in zip(self.variables, self.speed, grads):
            s.assign(self.mu * s - self.rate * g)
            v.assign_add(s)


layers = [Affine(TENORS, HIDDEN), Affine(HIDDEN, HIDDEN), Affine(HIDDEN, CODE),
          Affine(CODE, HIDDEN), Affine(HIDDEN, HIDDEN), Affine(HIDDEN, TENORS)]
variables = [v for layer in layers for v in (layer.w, layer.b)]
momentum = Momentum(variables)


def autoencode(x):
    for k, layer in enumerate(layers):
        x = layer(x)
        if k not in (2, 5):
            x = tf.nn.relu(x)
    return x


@tf.function
def step(clean, known):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((autoencode(clean * known) - clean) ** 2)
    momentum.apply(tape.gradient(loss, variables))
    return loss


curves = simulate_curves(6000)
t0, count = time.time(), 0
for epoch in range(10):
    order = rng.permutation(len(curves))
    for k in range(0, len(order) - BATCH + 1, BATCH):
        clean = curves[order[k:k + BATCH]]
        known = (rng.random(clean.shape) < 0.5).astype(clean.dtype)
        loss = step(clean, known)
        count += 1
    print(f"epoch {epoch}: {float(loss):.4f}, {1000 * (time.time() - t0) / count:.1f} ms a step")
