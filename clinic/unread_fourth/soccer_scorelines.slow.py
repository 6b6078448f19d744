"""Bivariate goal model for league football, trained on simulated seasons."""
import argparse
import time
from collections import OrderedDict

import keras
import numpy as np
import tensorflow as tf

N_CLUBS = 120


class AverageMeter:
    def __init__(self, name, fmt="{:.4f}"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += float(value) * n
        self.count += n

    def __str__(self):
        return f"{self.name} " + self.fmt.format(self.sum / max(self.count, 1))


class GoalNet(keras.Model):
    def __init__(self, dim=48, width=256):
        super().__init__()
        self.clubs = keras.layers.Embedding(N_CLUBS, dim)
        self.flat = keras.layers.Flatten()
        self.body = keras.Sequential([
            keras.layers.Dense(width, activation="gelu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(width, activation="gelu"),
        ])
        self.rates = keras.layers.Dense(2)

    def call(self, inputs, training=False):
        pair, context = inputs
        emb = self.flat(self.clubs(pair))
        return self.rates(self.body(tf.concat([emb, context], -1), training=training))


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    attack, defence = np.random.default_rng(7).normal(0, 0.3, (2, N_CLUBS))
    pair = rng.integers(0, N_CLUBS, (n, 2)).astype("int32")
    ctx = rng.normal(size=(n, 12)).astype("float32")
    lam_h = np.exp(0.3 + attack[pair[:, 0]] - defence[pair[:, 1]] + 0.1 * ctx[:, 0])
    lam_a = np.exp(0.1 + attack[pair[:, 1]] - defence[pair[:, 0]] - 0.1 * ctx[:, 0])
    goals = np.stack([rng.poisson(lam_h), rng.poisson(lam_a)], 1).astype("float32")
    return pair, ctx, goals


def make_loader(arrays, batch, training):
    ds = tf.data.Dataset.from_tensor_slices(arrays)
    if training:
        ds = ds.shuffle(8192)
    return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = GoalNet()
        self.opt = keras.optimizers.AdamW(args.lr, weight_decay=1e-4)
        self.train_dl = make_loader(simulate(60000, 1), args.batch, True)
        self.valid_dl = make_loader(simulate(8000, 2), args.batch, False)
        self.meters = OrderedDict((k, AverageMeter(k)) for k in ("nll", "outcome", "gnorm"))

    def _scores(self, log_rates, goals):
        nll = tf.reduce_mean(tf.reduce_sum(tf.exp(log_rates) - goals * log_rates, -1))
        guess = tf.sign(tf.round(tf.exp(log_rates[:, 0]) - tf.exp(log_rates[:, 1])))
        hit = tf.reduce_mean(tf.cast(guess == tf.sign(goals[:, 0] - goals[:, 1]), tf.float32))
        return nll, hit

    @tf.function
    def train_step(self, pair, ctx, goals):
        with tf.GradientTape() as tape:
            nll, hit = self._scores(self.model((pair, ctx), training=True), goals)
        variables = self.model.trainable_variables
        grads, norm = tf.clip_by_global_norm(tape.gradient(nll, variables), 5.0)
        self.opt.apply_gradients(zip(grads, variables))
        return {"nll": nll, "outcome": hit, "gnorm": norm}

    @tf.function
    def valid_step(self, pair, ctx, goals):
        nll, hit = self._scores(self.model((pair, ctx), training=False), goals)
        return {"nll": nll, "outcome": hit}

    def _log(self, stats, n):
        for key, value in stats.items():
            self.meters[key].update(value, n)

    def run_split(self, loader, step):
        for meter in self.meters.values():
            meter.reset()
        for pair, ctx, goals in loader:
            self._log(step(pair, ctx, goals), pair.shape[0])
        return "  ".join(str(m) for m in self.meters.values())

    def fit(self):
        for epoch in range(self.args.epochs):
            t0 = time.time()
            tr = self.run_split(self.train_dl, self.train_step)
            va = self.run_split(self.valid_dl, self.valid_step)
            print(f"[{epoch:03d}] train {tr} | valid {va} | {time.time() - t0:.1f}s")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--lr", type=float, default=1e-3)
    Trainer(p.parse_args()).fit()
