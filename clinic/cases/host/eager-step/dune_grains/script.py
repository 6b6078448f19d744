"""Joint density of sand transport on a dune crest.

A RealNVP flow over (wind u, wind v, log grain size, local slope, surface
moisture, log flux).  The field campaign's loggers are replaced by a generator
with the same marginals, so that the script can go to the students.
"""
import argparse
import dataclasses
import math
import time

import keras
import numpy as np
import tensorflow as tf

LOG_2PI = math.log(2.0 * math.pi)


@dataclasses.dataclass
class Config:
    dims: int = 6
    couplings: int = 6
    hidden: int = 64
    batch: int = 256
    steps: int = 300
    lr: float = 1e-3
    check_finite: bool = True  # the moisture run of May blew up overnight
    seed: int = 11


def transport_samples(n, seed):
    rng = np.random.default_rng(seed)
    wind = 7.0 * rng.weibull(2.0, n)
    direction = rng.vonmises(0.8, 3.0, n)
    size = rng.lognormal(-1.2, 0.35, n)
    slope = rng.normal(0.0, 8.0, n)
    moisture = rng.beta(2.0, 9.0, n)
    excess = np.maximum(wind - 4.5 - 0.05 * slope, 0.0)
    flux = np.log1p(excess**3 / (1.0 + 20.0 * moisture) / (size + 0.2))
    flux = flux + rng.normal(0.0, 0.1, n)
    table = np.stack(
        [wind * np.cos(direction), wind * np.sin(direction), np.log(size), slope, moisture, flux],
        axis=1,
    )
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    return table.astype("float32")


class Coupling(keras.layers.Layer):
    """Affine coupling: one half of the columns moves the other half."""

    def __init__(self, dims, hidden, flip, **kwargs):
        super().__init__(**kwargs)
        self.half = dims // 2
        self.flip = flip
        self.net = keras.Sequential(
            [
                keras.layers.Dense(hidden, activation="relu"),
                keras.layers.Dense(hidden, activation="relu"),
                keras.layers.Dense(2 * self.half, kernel_initializer="zeros"),
            ]
        )

    def build(self, input_shape):
        self.net.build((None, self.half))
        self.built = True

    def call(self, x):
        a, b = x[:, : self.half], x[:, self.half :]
        if self.flip:
            a, b = b, a
        log_s, shift = tf.split(self.net(a), 2, axis=-1)
        log_s = 2.0 * tf.tanh(0.5 * log_s)
        b = b * tf.exp(log_s) + shift
        parts = [b, a] if self.flip else [a, b]
        return tf.concat(parts, axis=-1), tf.reduce_sum(log_s, axis=-1)


class Flow:
    def __init__(self, cfg):
        self.couplings = [
            Coupling(cfg.dims, cfg.hidden, flip=bool(k % 2), name=f"coupling_{k}")
            for k in range(cfg.couplings)
        ]
        for c in self.couplings:
            c.build((None, cfg.dims))

    @property
    def trainable_variables(self):
        return [v for c in self.couplings for v in c.trainable_variables]

    def log_prob(self, x):
        total = 0.0
        for c in self.couplings:
            x, logdet = c(x)
            total = total + logdet
        base = -0.5 * tf.reduce_sum(tf.square(x) + LOG_2PI, axis=-1)
        return base + total


class FlowTrainer:
    def __init__(self, flow, cfg):
        self.flow = flow
        self.cfg = cfg
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(flow.trainable_variables)
        self.train_step = tf.function(self._step)

    def _step(self, x):
        with tf.GradientTape() as tape:
            nll = -tf.reduce_mean(self.flow.log_prob(x))
        variables = self.flow.trainable_variables
        grads = tape.gradient(nll, variables)
        self.opt.apply_gradients(zip(grads, variables))
        return nll

    def run(self, data):
        step = self._step if self.cfg.check_finite else self.train_step
        nll = None
        for i, x in enumerate(data.take(self.cfg.steps)):
            nll = step(x)
            if i % 30 == 0:
                value = float(nll)
                if self.cfg.check_finite and not math.isfinite(value):
                    raise RuntimeError(f"flow diverged at step {i}")
                print(f"step {i:4d}  nll {value:.3f}")
        return float(nll)


def main():
    cfg = Config()
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=cfg.steps)
    parser.add_argument("--couplings", type=int, default=cfg.couplings)
    args = parser.parse_args()
    cfg = dataclasses.replace(cfg, steps=args.steps, couplings=args.couplings)

    keras.utils.set_random_seed(cfg.seed)
    table = transport_samples(40000, cfg.seed)
    train, held = table[:36000], table[36000:]
    data = (
        tf.data.Dataset.from_tensor_slices(train)
        .shuffle(8192, seed=cfg.seed)
        .repeat()
        .batch(cfg.batch, drop_remainder=True)
        .prefetch(4)
    )

    flow = Flow(cfg)
    trainer = FlowTrainer(flow, cfg)
    t0 = time.perf_counter()
    final = trainer.run(data)
    seconds = time.perf_counter() - t0

    held_nll = -float(tf.reduce_mean(flow.log_prob(tf.constant(held))))
    print(f"final nll {final:.3f}  held-out nll {held_nll:.3f}")
    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
