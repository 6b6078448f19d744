"""Discrete autoencoder with Gumbel-softmax codes on handwritten-ish strokes."""
import math

import numpy as np
import tensorflow as tf

flags = {
    "dim": 256, "codes": 20, "arity": 16, "bs": 128,
    "epochs": 10, "tau0": 2.0, "tau_min": 0.3, "anneal": 2e-4,
}


def strokes(n, dim):
    rng = np.random.RandomState(4)
    proto = rng.rand(40, dim) > 0.6
    x = proto[rng.randint(0, 40, n)]
    flip = rng.rand(n, dim) < 0.05
    return np.logical_xor(x, flip).astype(np.float32)


class DiscreteAE(tf.keras.Model):
    def __init__(self, dim, codes, arity):
        super().__init__()
        self.codes, self.arity = codes, arity
        self.enc = tf.keras.Sequential([
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(codes * arity),
        ])
        self.dec = tf.keras.Sequential([
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(dim),
        ])

    def call(self, x, tau):
        logits = tf.reshape(self.enc(x), (-1, self.codes, self.arity))
        u = tf.random.uniform(tf.shape(logits), 1e-6, 1 - 1e-6)
        z = tf.nn.softmax((logits - tf.math.log(-tf.math.log(u))) / tau)
        recon = self.dec(tf.reshape(z, (-1, self.codes * self.arity)))
        return recon, logits


model = DiscreteAE(flags["dim"], flags["codes"], flags["arity"])
opt = tf.keras.optimizers.Adam(1e-3)
m_loss = tf.keras.metrics.Mean()


@tf.function
def train_step(x, tau):
    with tf.GradientTape() as tape:
        recon, logits = model(x, tau)
        bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=recon)
        q = tf.nn.softmax(logits)
        kl = tf.reduce_sum(q * (tf.nn.log_softmax(logits) + math.log(flags["arity"])), [1, 2])
        loss = tf.reduce_mean(tf.reduce_sum(bce, 1) + 0.1 * kl)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    m_loss.update_state(loss)


def temperature(step):
    return max(flags["tau_min"], flags["tau0"] * math.exp(-flags["anneal"] * step))


def main():
    data = strokes(50_000, flags["dim"])
    ds = (
        tf.data.Dataset.from_tensor_slices(data)
        .shuffle(10_000)
        .batch(flags["bs"], drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    step = 0
    for epoch in range(flags["epochs"]):
        m_loss.reset_state()
        for x in ds:
            tau = temperature(step)
            train_step(x, tf.constant(tau, tf.float32))
            step += 1
        print("epoch", epoch, "tau %.3f" % tau, "elbo %.3f" % float(m_loss.result()))


if __name__ == "__main__":
    main()
