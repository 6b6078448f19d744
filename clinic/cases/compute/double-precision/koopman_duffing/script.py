"""Deep Koopman operator for the Duffing oscillator, observed through a wide sensor array."""
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(8)
SENSORS, LATENT, HIDDEN, HORIZON = 128, 64, 384, 6


def simulate(n_traj, length, dt=0.05):
    s = rng.uniform(-1.5, 1.5, (n_traj, 2))
    out = np.empty((n_traj, length, 2))
    for k in range(length):
        out[:, k] = s
        dx = s[:, 1]
        dv = -0.2 * s[:, 1] + s[:, 0] - s[:, 0] ** 3
        s = s + dt * np.stack([dx, dv], 1)
    return out


def observe(states):
    proj = rng.normal(size=(2, SENSORS))
    phase = rng.uniform(0, 2 * np.pi, SENSORS)
    return np.cos(states @ proj + phase)


def dense(n_in, n_out):
    return {"w": tf.Variable(rng.normal(size=(n_in, n_out)) * np.sqrt(1.0 / n_in)),
            "b": tf.Variable(np.zeros(n_out))}


def apply(layers, x):
    for layer in layers[:-1]:
        x = tf.nn.elu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


data = observe(simulate(1024, 40))
encoder = [dense(SENSORS, HIDDEN), dense(HIDDEN, HIDDEN), dense(HIDDEN, LATENT)]
decoder = [dense(LATENT, HIDDEN), dense(HIDDEN, HIDDEN), dense(HIDDEN, SENSORS)]
koopman = tf.Variable(np.eye(LATENT) + 0.01 * rng.normal(size=(LATENT, LATENT)))
params = [p for layer in encoder + decoder for p in (layer["w"], layer["b"])] + [koopman]
momentum = [tf.Variable(tf.zeros_like(p), trainable=False) for p in params]


@tf.function
def update(window, lr):
    with tf.GradientTape() as tape:
        z = apply(encoder, window[:, 0])
        loss = tf.reduce_mean((apply(decoder, z) - window[:, 0]) ** 2)
        for k in range(1, HORIZON):
            z = z @ koopman
            loss += tf.reduce_mean((apply(decoder, z) - window[:, k]) ** 2)
            loss += 0.1 * tf.reduce_mean((apply(encoder, window[:, k]) - z) ** 2)
    for p, m, g in zip(params, momentum, tape.gradient(loss, params)):
        m.assign(0.9 * m + g)
        p.assign_sub(lr * m)
    return loss


def batch(n=192):
    i = rng.integers(0, len(data), n)
    k = rng.integers(0, data.shape[1] - HORIZON, n)
    return np.stack([data[a, b:b + HORIZON] for a, b in zip(i, k)])


t0 = time.perf_counter()
N = 130
for it in range(N):
    loss = update(tf.constant(batch()), tf.constant(0.01, dtype=koopman.dtype))
    if it % 40 == 0:
        print("iteration", it, "rollout loss", loss.numpy())
print("WORK", N)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
