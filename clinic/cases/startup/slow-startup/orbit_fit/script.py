"""Fit masses of a three-body toy system by differentiating through the integrator."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
STEPS, DT, UPDATES = 45, 0.01, 24

pos0 = tf.constant([[0.0, 0.0], [1.0, 0.0], [0.0, 1.4]])
vel0 = tf.constant([[0.0, 0.0], [0.0, 1.0], [-0.8, 0.0]])


def acceleration(pos, mass):
    diff = pos[None, :, :] - pos[:, None, :]
    dist = tf.reduce_sum(diff**2, -1) + 0.05
    return tf.reduce_sum(diff * (mass[None, :] / dist**1.5)[..., None], 1)


def leapfrog(pos, vel, mass):
    vel = vel + 0.5 * DT * acceleration(pos, mass)
    pos = pos + DT * vel
    vel = vel + 0.5 * DT * acceleration(pos, mass)
    return pos, vel


def simulate(mass):
    pos, vel = pos0, vel0
    for _ in range(STEPS):
        pos, vel = leapfrog(pos, vel, mass)
    return pos


log_mass = tf.Variable([0.2, -0.5, -0.5])
opt = tf.keras.optimizers.Adam(0.05)


@tf.function
def fit_once(target):
    with tf.GradientTape() as tape:
        end = simulate(tf.exp(log_mass))
        loss = tf.reduce_mean(tf.square(end - target))
    grad = tape.gradient(loss, log_mass)
    opt.apply_gradients([(grad, log_mass)])
    return loss


t0 = time.time()
target = tf.constant(np.array([[0.02, 0.05], [0.1, 0.95], [-0.9, 0.8]], "float32"))
for n in range(UPDATES):
    loss = fit_once(target)
    if n % 6 == 0:
        print(n, float(loss))
print("masses", tf.exp(log_mass).numpy(), "after", round(time.time() - t0, 2), "s")
