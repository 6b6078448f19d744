"""Denoising autoencoder + subtype head for tumour gene expression, from scratch
(no keras layers, the exercise asks us to write the layers ourselves)."""
import argparse
import time

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(21)


def load_cohort(patients, genes, subtypes):
    """log-normalised expression counts, z-scored per gene"""
    y = rng.randint(0, subtypes, patients)
    signature = rng.gamma(2.0, 1.0, (subtypes, genes))
    counts = rng.poisson(5.0 * signature[y])
    logged = np.log1p(counts)
    z = (logged - logged.mean(0)) / (logged.std(0) + 1e-6)
    return z, np.eye(subtypes)[y]


class Layer(tf.Module):
    def __init__(self, n_in, n_out, act=None):
        super().__init__()
        self.w = tf.Variable(rng.randn(n_in, n_out) * np.sqrt(2.0 / n_in))
        self.b = tf.Variable(np.zeros(n_out))
        self.act = act or (lambda v: v)

    def __call__(self, x):
        return self.act(x @ self.w + self.b)


class SubtypeAE(tf.Module):
    def __init__(self, genes, hidden, code, subtypes):
        super().__init__()
        self.encoder = [Layer(genes, hidden, tf.nn.relu), Layer(hidden, code, tf.nn.relu)]
        self.decoder = [Layer(code, hidden, tf.nn.relu), Layer(hidden, genes)]
        self.head = Layer(code, subtypes)

    def __call__(self, x):
        for layer in self.encoder:
            x = layer(x)
        subtype = self.head(x)
        for layer in self.decoder:
            x = layer(x)
        return x, subtype


class Momentum(tf.Module):
    def __init__(self, variables, lr, beta=0.9):
        super().__init__()
        self.lr, self.beta = lr, beta
        self.velocity = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, grads, variables):
        for m, g, v in zip(self.velocity, grads, variables):
            m.assign(self.beta * m + g)
            v.assign_sub(self.lr * m)


def make_step(model, opt, keep):
    params = model.trainable_variables

    @tf.function
    def step(x, y):
        drop = tf.cast(tf.random.uniform(tf.shape(x)) < keep, x.dtype)
        with tf.GradientTape() as tape:
            rebuilt, logits = model(x * drop)
            mse = tf.reduce_mean(tf.square(rebuilt - x))
            ce = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, logits))
            loss = mse + 0.1 * ce
        opt.apply(tape.gradient(loss, params), params)
        return loss

    return step


def main(a):
    x, y = load_cohort(a.patients, a.genes, a.subtypes)
    data = (tf.data.Dataset.from_tensor_slices((x, y))
            .shuffle(a.patients, seed=1).batch(a.batch, drop_remainder=True).prefetch(2))
    model = SubtypeAE(a.genes, 512, 128, a.subtypes)
    step = make_step(model, Momentum(model.trainable_variables, a.lr), a.keep)
    done = 0
    start = time.time()
    for epoch in range(a.epochs):
        losses = []
        for xb, yb in data:
            losses.append(step(xb, yb))
            done += 1
        print("epoch %d  loss %.4f" % (epoch, np.mean([v.numpy() for v in losses])))
    print("WORK", done)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--patients", type=int, default=1536)
    p.add_argument("--genes", type=int, default=2000)
    p.add_argument("--subtypes", type=int, default=5)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--keep", type=float, default=0.8)
    main(p.parse_args())
