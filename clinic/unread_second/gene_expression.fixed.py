"""Cell type prediction from expression profiles."""
import logging
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("cells")


@dataclass
class HParams:
    cells: int = 50_000
    genes: int = 1_000
    types: int = 30
    batch: int = 4096
    epochs: int = 30
    hidden: int = 256
    lr: float = 1e-3


def load_counts(hp):
    rng = np.random.default_rng(5)
    y = rng.integers(0, hp.types, hp.cells)
    profile = rng.gamma(0.5, 1.0, (hp.types, hp.genes)).astype(np.float32)
    X = np.log1p(rng.poisson(profile[y])).astype(np.float32)
    return X, y.astype(np.int32)


class CellNet(tf.keras.Model):
    def __init__(self, hp):
        super().__init__()
        self.d1 = tf.keras.layers.Dense(hp.hidden, activation="gelu")
        self.norm = tf.keras.layers.LayerNormalization()
        self.d2 = tf.keras.layers.Dense(hp.types)

    def call(self, x):
        return self.d2(self.norm(self.d1(x)))


class Trainer:
    def __init__(self, hp, X, y):
        self.hp = hp
        self.X, self.y = tf.convert_to_tensor(X), tf.convert_to_tensor(y)
        self.net = CellNet(hp)
        self.net.build((None, hp.genes))
        self.opt = tf.keras.optimizers.Adam(hp.lr)
        self.opt.build(self.net.trainable_variables)
        self.ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss_avg = tf.keras.metrics.Mean()
        self.acc = tf.keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def step(self, xb, yb):
        with tf.GradientTape() as tape:
            logits = self.net(xb, training=True)
            loss = self.ce(yb, logits)
        vs = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, vs), vs))
        self.loss_avg.update_state(loss)
        self.acc.update_state(yb, logits)

    def run(self):
        rng = np.random.default_rng(0)
        n, bs = self.hp.cells, self.hp.batch
        for epoch in range(self.hp.epochs):
            self.loss_avg.reset_state()
            self.acc.reset_state()
            perm = tf.convert_to_tensor(rng.permutation(n))
            for i in range(0, n - bs + 1, bs):
                idx = perm[i:i + bs]
                xb = tf.gather(self.X, idx)
                yb = tf.gather(self.y, idx)
                self.step(xb, yb)
            log.info("epoch %d loss %.4f acc %.3f", epoch,
                     float(self.loss_avg.result()), float(self.acc.result()))


if __name__ == "__main__":
    hp = HParams()
    Trainer(hp, *load_counts(hp)).run()
