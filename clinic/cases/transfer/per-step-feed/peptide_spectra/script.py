# Match peptides to mass spectra: a two-tower net on a library that comes as JSON lines.
import json
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(55)
rng = np.random.default_rng(55)

PEAKS, PEPTIDE = 400, 60


def write_library(path, n=1500):
    mix = rng.normal(size=(PEPTIDE, PEAKS))
    with open(path, "w") as f:
        for _ in range(n):
            p = rng.normal(size=PEPTIDE).round(3)
            s = np.maximum(p @ mix / 8 + 0.1 * rng.normal(size=PEAKS), 0).round(3)
            f.write(json.dumps({"peptide": p.tolist(), "spectrum": s.tolist()}) + "\n")


def read_library(path):
    peptides, spectra = [], []
    with open(path) as f:
        for line in f:
            entry = json.loads(line)
            peptides.append(entry["peptide"])
            spectra.append(entry["spectrum"])
    return peptides, spectra


def tower(width, name):
    return keras.Sequential([
        keras.Input((width,)),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(32),
    ], name=name)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "library.jsonl")
    write_library(path)
    peptides, spectra = read_library(path)

left, right = tower(PEPTIDE, "peptide"), tower(PEAKS, "spectrum")
weights = left.trainable_variables + right.trainable_variables
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def contrast(p, s):
    with tf.GradientTape() as tape:
        a = tf.math.l2_normalize(left(p), -1)
        b = tf.math.l2_normalize(right(s), -1)
        logits = 12.0 * tf.matmul(a, b, transpose_b=True)
        truth = tf.range(tf.shape(p)[0])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(truth, logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


def rows(table, chosen):
    return tf.constant([table[i] for i in chosen], tf.float32)


BATCH, steps, t0 = 96, 0, time.time()
for epoch in range(72):
    order = rng.permutation(len(peptides))
    for k in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[k:k + BATCH]
        loss = contrast(rows(peptides, chosen), rows(spectra, chosen))
        steps += 1
    if epoch % 24 == 23:
        print(f"epoch {epoch + 1}  loss {float(loss):.3f}  {1000 * (time.time() - t0) / steps:.1f} ms a step")
