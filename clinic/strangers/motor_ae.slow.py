"""Autoencoder for motor vibration spectra on plain TensorFlow: own layers, own momentum."""
import time

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(2024)


def spectrum_set(n, bins):
    freq = np.linspace(0.0, 1.0, bins)
    base = rng.uniform(0.05, 0.2, (n, 1))
    out = np.zeros((n, bins))
    for k in range(1, 5):
        out += rng.uniform(0.2, 1.0, (n, 1)) * np.exp(-(((freq - k * base) / 0.01) ** 2))
    return out + 0.01 * rng.standard_normal((n, bins))


class Affine(tf.Module):
    def __init__(self, n_in, n_out, act=None):
        super().__init__()
        lim = np.sqrt(6.0 / (n_in + n_out))
        self.w = tf.Variable(rng.uniform(-lim, lim, (n_in, n_out)))
        self.b = tf.Variable(np.zeros(n_out))
        self.act = act

    def __call__(self, x):
        z = tf.matmul(x, self.w) + self.b
        return self.act(z) if self.act else z


class Momentum(tf.Module):
    def __init__(self, variables, lr, mu=0.9):
        super().__init__()
        self.variables_ = list(variables)
        self.speed = [tf.Variable(tf.zeros_like(v)) for v in self.variables_]
        self.lr, self.mu = lr, mu

    def step(self, grads):
        for v, s, g in zip(self.variables_, self.speed, grads):
            s.assign(self.mu * s + g)
            v.assign_sub(self.lr * s)


class Hourglass(tf.Module):
    def __init__(self, sizes):
        super().__init__()
        last = len(sizes) - 2
        self.layers = [
            Affine(a, b, None if i == last else tf.nn.relu)
            for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:]))
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


BINS, BATCH, EPOCHS = 600, 256, 5
net = Hourglass([BINS, 1024, 256, 1024, BINS])
opt = Momentum(net.trainable_variables, lr=0.02)


@tf.function
def fit_batch(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - x))
    opt.step(tape.gradient(loss, net.trainable_variables))
    return loss


data = spectrum_set(5632, BINS)
data = (data - data.mean(0)) / data.std(0)
batches = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data), seed=0).batch(BATCH).prefetch(2)

t0 = time.time()
for epoch in range(EPOCHS):
    losses = [fit_batch(b) for b in batches]
    print("epoch", epoch, "mse %.4f" % float(tf.add_n(losses) / len(losses)))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
