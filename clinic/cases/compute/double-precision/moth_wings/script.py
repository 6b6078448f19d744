"""Autoencoder for moth wing outlines, written without layers."""
import sys
import time

import numpy as np
import tensorflow as tf

POINTS = 256
HIDDEN = [768, 512, 24, 512, 768]
STEPS = 220
BATCH = 256


def outlines(n, rng):
    angle = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    amp = rng.normal(0, 1, (n, 6)) / np.arange(1, 7)
    phase = rng.uniform(0, 2 * np.pi, (n, 6))
    r = np.ones((n, POINTS))
    for k in range(6):
        r += 0.2 * amp[:, k:k + 1] * np.cos((k + 1) * angle + phase[:, k:k + 1])
    r += rng.normal(0, 0.01, r.shape)
    return r


def init_layer(rng, fan_in, fan_out):
    w = rng.normal(0, np.sqrt(2.0 / fan_in), (fan_in, fan_out))
    b = np.zeros(fan_out)
    return tf.Variable(w), tf.Variable(b)


rng = np.random.default_rng(5)
wings = outlines(8192, rng)
sizes = [POINTS] + HIDDEN + [POINTS]
params = [init_layer(rng, a, b) for a, b in zip(sizes[:-1], sizes[1:])]
flat = [v for pair in params for v in pair]
velocity = [tf.Variable(tf.zeros_like(v), trainable=False) for v in flat]


def forward(x):
    h = x
    for i, (w, b) in enumerate(params):
        h = tf.matmul(h, w) + b
        if i != len(params) - 1:
            h = tf.nn.relu(h)
    return h


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(x) - x))
    grads = tape.gradient(loss, flat)
    for v, m, g in zip(flat, velocity, grads):
        m.assign(0.9 * m + g)
        v.assign_sub(0.01 * m)
    return loss


data = (tf.data.Dataset.from_tensor_slices(wings)
        .shuffle(8192, seed=1)
        .repeat()
        .batch(BATCH, drop_remainder=True)
        .take(STEPS)
        .prefetch(tf.data.AUTOTUNE))

clock = time.time()
for n, batch in enumerate(data):
    loss = train_step(batch)
    if n % 50 == 0:
        print(f"{n:4d}  {loss.numpy():.5f}", file=sys.stderr)
print(f"done in {time.time() - clock:.1f} s, loss {loss.numpy():.5f}")
