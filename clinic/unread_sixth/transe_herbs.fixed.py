"""TransE embeddings for a herb / compound / target / paper knowledge graph."""
import argparse
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class KGConfig:
    entities: int = 1_500_000
    relations: int = 48
    dim: int = 128
    margin: float = 4.0
    l2: float = 1e-6
    lr: float = 0.05
    batch: int = 8192
    steps_per_epoch: int = 500
    epochs: int = 40


def load_triples(path, cfg):
    if path:
        return np.load(path)["triples"].astype(np.int64)
    rng = np.random.default_rng(17)
    n = 4_000_000
    h = rng.integers(0, cfg.entities, n)
    r = rng.integers(0, cfg.relations, n)
    t = (h * 7 + r * 104729 + rng.integers(0, 50, n)) % cfg.entities
    return np.stack([h, r, t], axis=1).astype(np.int64)


class TransE(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        bound = 6.0 / np.sqrt(cfg.dim)
        init = keras.initializers.RandomUniform(-bound, bound)
        self.ent = keras.layers.Embedding(cfg.entities, cfg.dim, embeddings_initializer=init)
        self.rel = keras.layers.Embedding(cfg.relations, cfg.dim, embeddings_initializer=init)
        self.ent.build(None)
        self.rel.build(None)

    def distance(self, h, r, t):
        return tf.reduce_sum(tf.abs(h + r - t), axis=-1)

    def loss_on(self, triples, corrupt, side):
        h = self.ent(triples[:, 0])
        r = self.rel(triples[:, 1])
        t = self.ent(triples[:, 2])
        c = self.ent(corrupt)
        good = self.distance(h, r, t)
        bad = tf.where(side, self.distance(c, r, t), self.distance(h, r, c))
        rank = tf.reduce_sum(tf.nn.relu(self.cfg.margin + good - bad))
        reg = tf.reduce_sum(tf.square(h)) + tf.reduce_sum(tf.square(t)) + tf.reduce_sum(tf.square(c))
        return rank + self.cfg.l2 * reg


class Trainer:
    def __init__(self, cfg, triples):
        self.cfg = cfg
        self.model = TransE(cfg)
        self.triples = tf.constant(triples)
        self.n = len(triples)
        self.opt = keras.optimizers.SGD(cfg.lr)
        self.weights = [self.model.ent.trainable_variables[0], self.model.rel.trainable_variables[0]]
        self.opt.build(self.weights)
        self.mean_loss = keras.metrics.Mean()

    @tf.function
    def step(self):
        cfg = self.cfg
        idx = tf.random.uniform((cfg.batch,), 0, self.n, dtype=tf.int64)
        batch = tf.gather(self.triples, idx)
        corrupt = tf.random.uniform((cfg.batch,), 0, cfg.entities, dtype=tf.int64)
        side = tf.random.uniform((cfg.batch,)) < 0.5
        with tf.GradientTape() as tape:
            loss = self.model.loss_on(batch, corrupt, side)
        grads = tape.gradient(loss, self.weights)
        self.opt.apply_gradients(zip(grads, self.weights))
        self.mean_loss.update_state(loss / cfg.batch)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.mean_loss.reset_state()
            for _ in range(self.cfg.steps_per_epoch):
                self.step()
            print(f"epoch {epoch:2d}: loss per triple {float(self.mean_loss.result()):.4f}")


def nearest(model, entity, k=10):
    table = tf.convert_to_tensor(model.ent.embeddings)
    d = tf.reduce_sum(tf.abs(table - table[entity]), axis=1)
    return tf.math.top_k(-d, k + 1).indices.numpy()[1:]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--triples", default="")
    ap.add_argument("--out", default="transe_entities.npy")
    ns = ap.parse_args()
    config = KGConfig()
    tf.random.set_seed(0)
    trainer = Trainer(config, load_triples(ns.triples, config))
    trainer.fit()
    print("neighbours of entity 42:", nearest(trainer.model, 42))
    np.save(ns.out, trainer.model.ent.get_weights()[0])
