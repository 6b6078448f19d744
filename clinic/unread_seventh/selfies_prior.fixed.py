# Latent prior over drug-like molecules. Token ids come from tools/tokenise_selfies.py.
import json
import math
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers, losses, metrics, optimizers

DATA = sys.argv[1] if len(sys.argv) > 1 else "chembl_selfies"
MAX_LEN = 96
BATCH = 512
LATENT = 64
HIDDEN = 512
EPOCHS = 40
PAD, START, UNK = 0, 1, 2


class Encoder(Model):
    def __init__(self, vocab):
        super().__init__()
        self.emb = layers.Embedding(vocab, 128)
        self.rnn = layers.Bidirectional(layers.GRU(HIDDEN))
        self.stats = layers.Dense(2 * LATENT)

    def call(self, tokens, training=False):
        mu, logvar = tf.split(self.stats(self.rnn(self.emb(tokens))), 2, axis=-1)
        return mu, tf.clip_by_value(logvar, -8.0, 8.0)


class Decoder(Model):
    def __init__(self, vocab):
        super().__init__()
        self.emb = layers.Embedding(vocab, 128)
        self.rnn = layers.GRU(HIDDEN, return_sequences=True)
        self.out = layers.Dense(vocab)

    def call(self, inputs, training=False):
        prev, z = inputs
        e = self.emb(prev)
        zz = tf.repeat(z[:, None, :], MAX_LEN, axis=1)
        return self.out(self.rnn(tf.concat([e, zz], -1)))


class Annealer:
    """Cyclical KL weight, decaying word dropout and a slowly closing free-bits floor."""

    def __init__(self, period, cycles, beta_max=0.3):
        self.period = period
        self.cycles = cycles
        self.beta_max = beta_max

    def at(self, step):
        pos = (step % self.period) / self.period
        beta = self.beta_max * min(1.0, 2.0 * pos)
        total = self.period * self.cycles
        knobs = {
            "beta": beta,
            "word_drop": 0.1 + 0.3 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / total))),
            "free_bits": max(0.0, 0.25 * (1.0 - step / total)),
        }
        return {name: tf.constant(value, tf.float32) for name, value in knobs.items()}


class Prior:
    def __init__(self, vocab):
        self.enc = Encoder(vocab)
        self.dec = Decoder(vocab)
        self.opt = optimizers.Adam(1e-3, clipnorm=5.0)
        self.xent = losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        self.rec = metrics.Mean()
        self.kl = metrics.Mean()

    def elbo(self, tokens, knobs, training):
        tokens = tf.cast(tokens, tf.int32)
        mu, logvar = self.enc(tokens, training=training)
        z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
        prev = tf.pad(tokens[:, :-1], [[0, 0], [1, 0]], constant_values=START)
        hide = tf.random.uniform(tf.shape(prev)) < knobs["word_drop"]
        logits = self.dec((tf.where(hide, UNK, prev), z), training=training)
        keep = tf.cast(tokens != PAD, tf.float32)
        rec = tf.reduce_mean(tf.reduce_sum(self.xent(tokens, logits) * keep, -1))
        kl_dim = tf.reduce_mean(0.5 * (tf.exp(logvar) + mu ** 2 - 1.0 - logvar), 0)
        kl = tf.reduce_sum(tf.maximum(kl_dim, knobs["free_bits"]))
        return rec + knobs["beta"] * kl, rec, tf.reduce_sum(kl_dim)

    @tf.function
    def train_step(self, tokens, knobs):
        with tf.GradientTape() as tape:
            loss, rec, kl = self.elbo(tokens, knobs, True)
        variables = self.enc.trainable_variables + self.dec.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.rec.update_state(rec)
        self.kl.update_state(kl)

    @tf.function
    def test_step(self, tokens):
        _, rec, kl = self.elbo(tokens, {"beta": 1.0, "word_drop": 0.0, "free_bits": 0.0}, False)
        self.rec.update_state(rec)
        self.kl.update_state(kl)

    def drain(self):
        out = float(self.rec.result()), float(self.kl.result())
        self.rec.reset_state()
        self.kl.reset_state()
        return out


def batches(name, training):
    ids = np.load(os.path.join(DATA, name + ".npy"))  # uint8, (n, MAX_LEN)
    ds = tf.data.Dataset.from_tensor_slices(ids)
    if training:
        ds = ds.shuffle(200_000)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE), len(ids) // BATCH


with open(os.path.join(DATA, "vocab.json")) as fh:
    vocab = json.load(fh)
train, n_steps = batches("train", True)
valid, _ = batches("valid", False)

prior = Prior(vocab=len(vocab))
anneal = Annealer(period=4 * n_steps, cycles=EPOCHS // 4)
ckpt = tf.train.Checkpoint(enc=prior.enc, dec=prior.dec, opt=prior.opt)
writer = tf.summary.create_file_writer("tb/selfies_prior")

step, best = 0, math.inf
for epoch in range(EPOCHS):
    for tokens in train:
        prior.train_step(tokens, anneal.at(step))
        step += 1
    t_rec, t_kl = prior.drain()
    for tokens in valid:
        prior.test_step(tokens)
    v_rec, v_kl = prior.drain()
    with writer.as_default(step=epoch):
        tf.summary.scalar("train/rec", t_rec)
        tf.summary.scalar("valid/rec", v_rec)
        tf.summary.scalar("valid/kl", v_kl)
    print(f"epoch {epoch:02d}  rec {t_rec:.2f}  kl {t_kl:.2f}  | valid {v_rec:.2f} {v_kl:.2f}")
    if v_rec + v_kl < best:
        best = v_rec + v_kl
        ckpt.write("ckpt/selfies_prior")
