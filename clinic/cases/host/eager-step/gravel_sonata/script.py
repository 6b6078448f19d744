"""Small GAN on 2-D spirals lifted to 64 dimensions."""
import os
import time
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, Sequential, Input, optimizers

LATENT, DIM = 16, 64


def graph(fn):
    """Project-wide wrapper, so that breakpoints work on the laptop (SONATA_GRAPH=1 on the cluster)."""
    if os.environ.get("SONATA_GRAPH", "0") == "1":
        return tf.function(fn)
    return fn


def spirals(n, seed=13):
    g = np.random.default_rng(seed)
    t = g.uniform(0.5, 3.0, n) * 2 * np.pi
    xy = np.stack([t * np.cos(t), t * np.sin(t)], 1) / 20
    lift = g.normal(size=(2, DIM)) / 2
    return np.tanh(xy @ lift + 0.02 * g.normal(size=(n, DIM))).astype(np.float32)


def tower(n_in, widths, n_out, last=None):
    net = Sequential([Input((n_in,))])
    for w in widths:
        net.add(layers.Dense(w))
        net.add(layers.LeakyReLU(0.2))
    net.add(layers.Dense(n_out, activation=last))
    return net


class Duel:
    def __init__(self):
        self.forger = tower(LATENT, (512, 512), DIM, "tanh")
        self.critic = tower(DIM, (512, 512), 1)
        self.of = optimizers.Adam(2e-4, beta_1=0.5)
        self.oc = optimizers.Adam(2e-4, beta_1=0.5)
        self.of.build(self.forger.trainable_variables)
        self.oc.build(self.critic.trainable_variables)

    @graph
    def exchange(self, real):
        z = tf.random.normal([tf.shape(real)[0], LATENT])
        with tf.GradientTape() as tf_, tf.GradientTape() as tc:
            fake = self.forger(z, training=True)
            on_real = self.critic(real, training=True)
            on_fake = self.critic(fake, training=True)
            lc = tf.reduce_mean(tf.nn.softplus(-on_real)) + tf.reduce_mean(tf.nn.softplus(on_fake))
            lf = tf.reduce_mean(tf.nn.softplus(-on_fake))
        gf = tf_.gradient(lf, self.forger.trainable_variables)
        gc_ = tc.gradient(lc, self.critic.trainable_variables)
        self.of.apply_gradients(zip(gf, self.forger.trainable_variables))
        self.oc.apply_gradients(zip(gc_, self.critic.trainable_variables))
        return lf, lc


def rounds(duel, ds, n):
    last = None
    for real in ds.take(n):
        last = duel.exchange(real)
    return [float(v) for v in last]


if __name__ == "__main__":
    BATCH, N = 128, 420
    ds = tf.data.Dataset.from_tensor_slices(spirals(BATCH * 40)).batch(BATCH).cache().repeat().prefetch(2)
    duel = Duel()
    rounds(duel, ds, 5)
    t = time.perf_counter()
    print("forger %.3f critic %.3f" % tuple(rounds(duel, ds, N)))
    t = time.perf_counter() - t
    print("WORK", N * BATCH)
    print("TRAIN_SECONDS", round(t, 3))
