"""RealNVP on wind-blown sand statistics (6-d), maximum likelihood.

Loosely after the density estimation example on keras.io.
"""
import numpy as np
import tensorflow as tf
import keras
from keras import layers
from keras import regularizers

DIM = 6
COUPLINGS = 6
BATCH = 256


def dune_samples(n, seed=17):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, DIM))
    z[:, 1] += 0.6 * z[:, 0] ** 2
    z[:, 3] = np.sin(z[:, 2]) + 0.3 * z[:, 3]
    z[:, 5] *= np.exp(0.3 * z[:, 4])
    return ((z - z.mean(0)) / z.std(0)).astype("float32")


def coupling(width=32):
    inp = keras.Input((DIM,))
    reg = regularizers.l2(1e-4)
    s = layers.Dense(width, activation="relu", kernel_regularizer=reg)(inp)
    s = layers.Dense(width, activation="relu", kernel_regularizer=reg)(s)
    s = layers.Dense(DIM, activation="tanh", kernel_initializer="zeros")(s)
    t = layers.Dense(width, activation="relu", kernel_regularizer=reg)(inp)
    t = layers.Dense(DIM, kernel_initializer="zeros")(t)
    return keras.Model(inp, [s, t])


class RealNVP(keras.Model):
    def __init__(self):
        super().__init__()
        half = np.array([0, 1] * (DIM // 2), "float32")
        self.masks = [half if k % 2 else 1 - half for k in range(COUPLINGS)]
        self.blocks = [coupling() for _ in range(COUPLINGS)]

    def call(self, x):
        logdet = 0.0
        for mask, block in zip(self.masks, self.blocks):
            s, t = block(x * mask)
            s, t = s * (1 - mask), t * (1 - mask)
            x = x * tf.exp(s) + t
            logdet += tf.reduce_sum(s, axis=1)
        return x, logdet


@tf.function
def negative_log_likelihood(z, logdet):
    prior = -0.5 * tf.reduce_sum(z ** 2, axis=1) - 0.5 * DIM * np.log(2 * np.pi)
    return -tf.reduce_mean(prior + logdet)


def train_step(flow, optimizer, x):
    with tf.GradientTape() as tape:
        z, logdet = flow(x)
        nll = negative_log_likelihood(z, logdet)
        loss = nll + tf.add_n(flow.losses)
    grads = tape.gradient(loss, flow.trainable_variables)
    optimizer.apply_gradients(zip(grads, flow.trainable_variables))
    return nll


keras.utils.set_random_seed(17)
flow = RealNVP()
flow(np.zeros((1, DIM), "float32"))
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(flow.trainable_variables)
data = tf.data.Dataset.from_tensor_slices(dune_samples(BATCH * 25)).batch(BATCH).prefetch(2)

for epoch in range(3):
    mean = keras.metrics.Mean()
    for x in data:
        mean.update_state(train_step(flow, optimizer, x))
    print(f"epoch {epoch}  nll {float(mean.result()):.3f}")
