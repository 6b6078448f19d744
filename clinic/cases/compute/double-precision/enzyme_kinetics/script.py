# Autoencoder for enzyme activity profiles, written on bare tf.Module.
import time

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(99)


class Linear(tf.Module):
    def __init__(self, n_in, n_out, act=None):
        super().__init__()
        self.w = tf.Variable(rng.normal(size=(n_in, n_out)) * np.sqrt(2.0 / n_in))
        self.b = tf.Variable(np.zeros(n_out))
        self.act = act

    def __call__(self, x):
        h = tf.matmul(x, self.w) + self.b
        return self.act(h) if self.act else h


class ProfileAutoencoder(tf.Module):
    def __init__(self, size, hidden, code):
        super().__init__()
        self.layers = [
            Linear(size, hidden, tf.nn.relu),
            Linear(hidden, hidden, tf.nn.relu),
            Linear(hidden, code),
            Linear(code, hidden, tf.nn.relu),
            Linear(hidden, size),
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Momentum:
    def __init__(self, variables, lr, mu=0.9):
        self.variables, self.lr, self.mu = variables, lr, mu
        self.velocity = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, grads):
        for v, m, g in zip(self.variables, self.velocity, grads):
            m.assign(self.mu * m - self.lr * g)
            v.assign_add(m)


def michaelis_menten(n, points=320):
    substrate = np.linspace(0.01, 10, points)
    vmax = rng.uniform(0.5, 3, (n, 1))
    km = rng.uniform(0.1, 4, (n, 1))
    ki = rng.uniform(2, 40, (n, 1))
    curve = vmax * substrate / (km + substrate + substrate ** 2 / ki)
    return curve + 0.02 * rng.normal(size=curve.shape)


profiles = michaelis_menten(6144)
model = ProfileAutoencoder(profiles.shape[1], 512, 16)
optimizer = Momentum(model.trainable_variables, lr=0.003)

dataset = (tf.data.Dataset.from_tensor_slices(profiles)
           .shuffle(6144, seed=1).batch(512, drop_remainder=True).cache().prefetch(2))


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - x))
    optimizer.apply(tape.gradient(loss, optimizer.variables))
    return loss


EPOCHS = 10
steps = 0
clock = time.perf_counter()
for epoch in range(EPOCHS):
    for x in dataset:
        loss = train_step(x)
        steps += 1
    print(f"epoch {epoch + 1}/{EPOCHS}  reconstruction {loss.numpy():.5f}")
clock = time.perf_counter() - clock
print("WORK", steps)
print("TRAIN_SECONDS", clock)
