"""Autoencoder of stellar spectra in plain TensorFlow: parameters in a list, Adam by hand."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

PIXELS, HIDDEN, CODE, BATCH = 900, 400, 24, 128
rng = np.random.default_rng(17)


def spectra(n):
    wave = np.linspace(0, 1, PIXELS)
    lines = rng.random((n, 6, 1))
    flux = 1 - 0.5 * np.exp(-((wave - lines) / 0.01) ** 2).sum(1)
    return flux + 0.02 * rng.normal(size=flux.shape)


def leaf(a):
    return tf.Variable(tf.convert_to_tensor(a))


def layer(n, m):
    return [leaf(rng.normal(size=(n, m)) / np.sqrt(n)), leaf(np.zeros(m))]


params = layer(PIXELS, HIDDEN) + layer(HIDDEN, CODE) + layer(CODE, HIDDEN) + layer(HIDDEN, PIXELS)
slots = [(leaf(np.zeros(p.shape)), leaf(np.zeros(p.shape))) for p in params]
clock = leaf(0.0 * np.ones(()))
everything = leaf(spectra(2048) - 1)


def forward(x):
    for i in range(0, 8, 2):
        x = x @ params[i] + params[i + 1]
        x = tf.nn.tanh(x) if i < 6 else x
    return x


@tf.function
def descend(rows):
    x = tf.gather(everything, rows)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(x) - x))
    clock.assign_add(tf.ones_like(clock))
    scale = 1e-3 * tf.sqrt(1 - 0.999 ** clock) / (1 - 0.9 ** clock)
    for p, g, (m, v) in zip(params, tape.gradient(loss, params), slots):
        m.assign(0.9 * m + 0.1 * g)
        v.assign(0.999 * v + 0.001 * g * g)
        p.assign_sub(scale * m / (tf.sqrt(v) + 1e-8))
    return loss


for epoch in range(12):
    order = tf.constant(rng.permutation(2048).reshape(-1, BATCH))
    seen = [descend(rows) for rows in order]
    print(f"epoch {epoch}: {float(tf.add_n(seen)) / len(seen):.5f}")
