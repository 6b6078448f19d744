"""Neural ODE: learn the vector field of the Lorenz system from short trajectories."""
import time
import numpy as np
import tensorflow as tf
import keras

wall = time.time()
keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)


def lorenz(s):
    x, y, z = s[..., 0], s[..., 1], s[..., 2]
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def simulate(s, dt=0.002, steps=100):
    for _ in range(steps):
        k1 = lorenz(s)
        k2 = lorenz(s + dt / 2 * k1)
        s = s + dt * k2
    return s


begin = rng.uniform(-15, 15, (2048, 3)) + np.array([0, 0, 25])
end = simulate(begin)
begin, end = (v.astype("float32") / 20 for v in (begin, end))

field = keras.Sequential([
    keras.Input((3,)),
    keras.layers.Dense(48, activation="tanh"),
    keras.layers.Dense(48, activation="tanh"),
    keras.layers.Dense(3),
])
optimizer = keras.optimizers.Adam(3e-3)
SUBSTEPS, H = 60, 0.2 / 60


def rk4(s):
    k1 = field(s)
    k2 = field(s + H / 2 * k1)
    k3 = field(s + H / 2 * k2)
    k4 = field(s + H * k3)
    return s + H / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def flow(s):
    for _ in range(SUBSTEPS):
        s = rk4(s)
    return s


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((flow(a) - b) ** 2)
    grads = tape.gradient(loss, field.trainable_variables)
    optimizer.apply_gradients(zip(grads, field.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices((begin, end)).shuffle(2048, seed=1).repeat().batch(64, drop_remainder=True).prefetch(2)
for i, (a, b) in enumerate(data.take(90)):
    loss = step(a, b)
    if i % 30 == 29:
        print(f"{i + 1:3d}  loss {float(loss):.5f}  after {time.time() - wall:.1f} s")
