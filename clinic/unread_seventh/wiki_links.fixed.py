"""TransE on the Wikidata5M transductive split.

Expects train.npy / valid.npy with (head, relation, tail) rows, made by prepare_wikidata5m.py.
"""
import csv
import math
import pathlib
import time

import numpy as np
import tensorflow as tf

DATA = pathlib.Path("data/wikidata5m")
OUT = pathlib.Path("runs/transe_128")
OUT.mkdir(parents=True, exist_ok=True)

DIM = 128
MARGIN = 0.6
BATCH = 4096
LR = 0.5
BLOCKS = 400            # one block = 2500 steps, roughly half an epoch
STEPS_PER_BLOCK = 2500
SEED = 11

tf.random.set_seed(SEED)

train = np.load(DATA / "train.npy").astype(np.int64)
valid = np.load(DATA / "valid.npy").astype(np.int64)
n_entity = int(max(train[:, [0, 2]].max(), valid[:, [0, 2]].max())) + 1
n_relation = int(train[:, 1].max()) + 1
print(f"{len(train):,} triples, {n_entity:,} entities, {n_relation} relations")

triples = tf.constant(train)
n_train = len(train)


class TransE(tf.Module):
    def __init__(self, n_entity, n_relation, dim, name=None):
        super().__init__(name=name)
        bound = 6.0 / math.sqrt(dim)
        entity = tf.random.uniform([n_entity, dim], -bound, bound)
        relation = tf.random.uniform([n_relation, dim], -bound, bound)
        self.entity = tf.Variable(tf.math.l2_normalize(entity, axis=1), name="entity")
        self.relation = tf.Variable(tf.math.l2_normalize(relation, axis=1), name="relation")

    def distance(self, h, r, t):
        head = tf.nn.embedding_lookup(self.entity, h)
        rel = tf.nn.embedding_lookup(self.relation, r)
        tail = tf.nn.embedding_lookup(self.entity, t)
        return tf.reduce_sum(tf.square(head + rel - tail), axis=1)


model = TransE(n_entity, n_relation, DIM)
lr = tf.Variable(LR, trainable=False)
step_count = tf.Variable(0, dtype=tf.int64, trainable=False)


def corrupt(h, t):
    """Replace either the head or the tail, as in Bordes et al. 2013."""
    other = tf.random.uniform([BATCH], 0, n_entity, dtype=tf.int64)
    coin = tf.random.uniform([BATCH]) < 0.5
    return tf.where(coin, other, h), tf.where(coin, t, other), other


def train_step():
    rows = tf.random.uniform([BATCH], 0, n_train, dtype=tf.int64)
    batch = tf.gather(triples, rows)
    h, r, t = batch[:, 0], batch[:, 1], batch[:, 2]
    neg_h, neg_t, other = corrupt(h, t)

    with tf.GradientTape() as tape:
        pos = model.distance(h, r, t)
        neg = model.distance(neg_h, r, neg_t)
        loss = tf.reduce_mean(tf.nn.relu(MARGIN + pos - neg))

    weights = [model.entity, model.relation]
    for var, grad in zip(weights, tape.gradient(loss, weights)):
        var.scatter_sub(tf.IndexedSlices(lr * BATCH * grad.values, grad.indices))

    # entities live on the unit sphere, relations are free
    moved = tf.concat([h, t, other], axis=0)
    unit = tf.math.l2_normalize(tf.gather(model.entity, moved), axis=1)
    model.entity.scatter_update(tf.IndexedSlices(unit, moved))
    step_count.assign_add(1)
    return loss


@tf.function
def run_block(n_steps):
    total = tf.constant(0.0)
    for _ in tf.range(n_steps):
        total += train_step()
    return total / tf.cast(n_steps, tf.float32)


@tf.function
def tail_ranks(batch):
    h, r, t = batch[:, 0], batch[:, 1], batch[:, 2]
    query = tf.gather(model.entity, h) + tf.gather(model.relation, r)
    score = tf.matmul(query, model.entity, transpose_b=True)
    truth = tf.gather(score, t[:, None], batch_dims=1)
    return 1 + tf.reduce_sum(tf.cast(score > truth, tf.int64), axis=1)


def evaluate(n=512, chunk=64):
    ds = tf.data.Dataset.from_tensor_slices(valid[:n]).batch(chunk, drop_remainder=True)
    ranks = np.concatenate([tail_ranks(b).numpy() for b in ds])
    return float(np.mean(1.0 / ranks)), float(np.mean(ranks <= 10))


ckpt = tf.train.Checkpoint(model=model, step=step_count)
manager = tf.train.CheckpointManager(ckpt, str(OUT / "ckpt"), max_to_keep=2)
ckpt.restore(manager.latest_checkpoint)

best = 0.0
with open(OUT / "log.csv", "a", newline="") as fh:
    log = csv.writer(fh)
    for block in range(BLOCKS):
        lr.assign(LR * 0.5 * (1.0 + math.cos(math.pi * block / BLOCKS)))
        t0 = time.perf_counter()
        loss = float(run_block(tf.constant(STEPS_PER_BLOCK)))
        rate = STEPS_PER_BLOCK * BATCH / (time.perf_counter() - t0)
        print(f"block {block:3d}  loss {loss:.4f}  {rate:,.0f} triples/s", flush=True)
        if block % 20 == 19:
            mrr, hits = evaluate()
            log.writerow([int(step_count), loss, mrr, hits])
            fh.flush()
            print(f"           MRR {mrr:.4f}  hits@10 {hits:.4f}")
            if mrr > best:
                best = mrr
                manager.save()
