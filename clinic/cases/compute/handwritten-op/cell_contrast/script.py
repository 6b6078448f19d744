"""Supervised contrastive embedding of single-cell expression profiles."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from keras import layers, Model, optimizers


class Encoder(Model):
    def __init__(self, dim=48):
        super().__init__()
        self.body = [layers.Dense(256, activation="relu"), layers.Dense(128, activation="relu")]
        self.head = layers.Dense(dim)

    def call(self, x, training=False):
        for d in self.body:
            x = d(x)
        return tf.math.l2_normalize(self.head(x), axis=-1)


def supcon_loss(z, labels, tau=0.2):
    n = tf.shape(z)[0]

    def one_anchor(i):
        sim = tf.reduce_sum(z * z[i], axis=1) / tau
        others = tf.cast(tf.range(n) != i, tf.float32)
        log_den = tf.math.log(tf.reduce_sum(tf.exp(sim) * others) + 1e-9)
        pos = tf.cast(labels == labels[i], tf.float32) * others
        return -tf.reduce_sum(pos * (sim - log_den)) / tf.maximum(tf.reduce_sum(pos), 1.0)

    return tf.reduce_mean(tf.map_fn(one_anchor, tf.range(n), fn_output_signature=tf.float32))


def cells(n=9000, genes=300, kinds=14, seed=2):
    rng = np.random.default_rng(seed)
    centre = rng.gamma(1.0, 1.0, (kinds, genes))
    kind = rng.integers(0, kinds, n)
    counts = rng.poisson(centre[kind] * rng.uniform(0.5, 2.0, (n, 1)))
    return np.log1p(counts).astype("float32"), kind.astype("int32")


def train(epochs, batch=256):
    x, y = cells()
    ds = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=0)
          .batch(batch, drop_remainder=True).prefetch(2))
    enc = Encoder()
    enc(tf.zeros((1, x.shape[1])))
    opt = optimizers.Adam(1e-3)
    opt.build(enc.trainable_variables)

    @tf.function
    def step(bx, by):
        with tf.GradientTape() as tape:
            loss = supcon_loss(enc(bx, training=True), by)
        g = tape.gradient(loss, enc.trainable_variables)
        opt.apply_gradients(zip(g, enc.trainable_variables))
        return loss

    seen, t0 = 0, time.time()
    for e in range(epochs):
        for bx, by in ds:
            loss = step(bx, by)
            seen += batch
        print("epoch %d: %.4f" % (e, float(loss)))
    return seen, time.time() - t0


if __name__ == "__main__":
    seen, secs = train(epochs=7)
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % secs)
