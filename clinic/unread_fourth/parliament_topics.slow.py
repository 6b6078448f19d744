"""ProdLDA-style neural topic model over parliamentary speeches (bags of words)."""
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

CONFIG = {
    "docs": 24000, "vocab": 3000, "topics": 50, "hidden": 256,
    "batch": 200, "epochs": 50, "lr": 2e-3,
    "kl_warmup": 4000, "l1_max": 1e-4,
}


class Penalties(NamedTuple):
    kl: float
    l1: float


class WarmUp:
    def __init__(self, steps, l1_max):
        self.steps, self.l1_max = steps, l1_max

    def at(self, step):
        frac = min(1.0, step / self.steps)
        return Penalties(kl=frac, l1=self.l1_max * frac)


def synthetic_speeches(cfg, seed=3):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(cfg["vocab"], 0.02), cfg["topics"])
    blocks = []
    for _ in range(cfg["docs"] // 2000):
        mix = rng.dirichlet(np.full(cfg["topics"], 0.1), 2000)
        blocks.append(np.minimum(rng.poisson(120 * (mix @ topics)), 255).astype(np.uint8))
    return np.concatenate(blocks)


class TopicVAE(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.enc = keras.Sequential([
            keras.layers.Dense(cfg["hidden"], activation="softplus"),
            keras.layers.Dense(cfg["hidden"], activation="softplus"),
            keras.layers.Dropout(0.2),
        ])
        self.mu = keras.layers.Dense(cfg["topics"])
        self.logvar = keras.layers.Dense(cfg["topics"])
        self.beta = keras.layers.Dense(cfg["vocab"], use_bias=False)
        self.norm = keras.layers.BatchNormalization(scale=False)

    def call(self, bow, training=False):
        h = self.enc(tf.math.log1p(bow), training=training)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu)) if training else mu
        logits = self.norm(self.beta(tf.nn.softmax(z)), training=training)
        return tf.nn.log_softmax(logits), mu, logvar


class TopicTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = TopicVAE(cfg)
        self.model(tf.zeros((1, cfg["vocab"])))
        self.opt = keras.optimizers.Adam(cfg["lr"], beta_1=0.99)
        self.opt.build(self.model.trainable_variables)
        self.warmup = WarmUp(cfg["kl_warmup"], cfg["l1_max"])
        self.elbo = keras.metrics.Mean()
        self.step = 0

    @tf.function
    def _update(self, counts, penalties):
        bow = tf.cast(counts, tf.float32)
        with tf.GradientTape() as tape:
            logp, mu, logvar = self.model(bow, training=True)
            rec = -tf.reduce_sum(bow * logp, -1)
            kl = -0.5 * tf.reduce_sum(1 + logvar - mu ** 2 - tf.exp(logvar), -1)
            sparse = tf.reduce_sum(tf.abs(self.model.beta.kernel))
            loss = tf.reduce_mean(rec + penalties.kl * kl) + penalties.l1 * sparse
        v = self.model.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        self.elbo.update_state(rec + kl)

    def fit(self, counts):
        ds = (tf.data.Dataset.from_tensor_slices(counts)
              .shuffle(4000).batch(self.cfg["batch"], drop_remainder=True)
              .prefetch(tf.data.AUTOTUNE))
        for epoch in range(self.cfg["epochs"]):
            for batch in ds:
                self._update(batch, self.warmup.at(self.step))
                self.step += 1
            print(f"epoch {epoch}: -elbo {float(self.elbo.result()):.2f}")
            self.elbo.reset_state()

    def top_words(self, k=8):
        kernel = self.model.beta.kernel.numpy()
        return np.argsort(-kernel, axis=1)[:, :k]


if __name__ == "__main__":
    trainer = TopicTrainer(CONFIG)
    trainer.fit(synthetic_speeches(CONFIG))
    print(trainer.top_words()[:10])
