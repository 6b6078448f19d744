import gc
import time
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FEATURES = 40


class Possession:
    """One possession of a season, kept for the report at the end."""

    def __init__(self, game, clock, passes, points):
        self.game = game
        self.clock = clock
        self.passes = passes
        self.points = points


@dataclass
class Settings:
    possessions: int = 200_000
    batch: int = 512
    steps: int = 280
    hidden: tuple = (768, 768, 256)
    rate: float = 0.02
    guard_every: int = 8
    memory_limit_mb: int = 6000
    seed: int = 23


@dataclass
class MemoryGuard:
    """Long runs on the shared box were killed; keep an eye on the resident set."""
    every: int
    limit_mb: int
    peaks: list = field(default_factory=list)

    def resident_mb(self):
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096 / 2 ** 20

    def __call__(self, step):
        if step % self.every:
            return
        gc.collect()
        now = self.resident_mb()
        self.peaks.append(now)
        if now > self.limit_mb:
            raise MemoryError(f"{now:.0f} MB in use at step {step}")


def load_season(cfg):
    rng = np.random.default_rng(cfg.seed)
    features = rng.normal(0, 1, (cfg.possessions, FEATURES)).astype(np.float32)
    weights = rng.normal(0, 0.5, FEATURES).astype(np.float32)
    points = np.clip(np.rint(1 + features @ weights * 0.4), 0, 3).astype(np.int32)
    clocks = rng.uniform(0, 2880, cfg.possessions).round(1).tolist()
    passes = rng.integers(0, 10, (cfg.possessions, 3)).tolist()
    season = [Possession(n // 200, c, p, s)
              for n, (c, p, s) in enumerate(zip(clocks, passes, points.tolist()))]
    return season, tf.constant(features), tf.constant(points)


class PointsModel:
    def __init__(self, cfg):
        self.net = keras.Sequential([layers.Input((FEATURES,))])
        for units in cfg.hidden:
            self.net.add(layers.Dense(units, activation="relu"))
        self.net.add(layers.Dense(4))
        self.optimizer = keras.optimizers.SGD(cfg.rate)
        self.optimizer.build(self.net.trainable_variables)

    def loss(self, x, y):
        logits = self.net(x, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))

    def stepper(self, features, points, batch):
        count = features.shape[0]

        @tf.function
        def step():
            rows = tf.random.uniform((batch,), 0, count, tf.int32)
            with tf.GradientTape() as tape:
                loss = self.loss(tf.gather(features, rows), tf.gather(points, rows))
            variables = self.net.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        return step


def report(season, losses):
    quick = sum(1 for p in season if len(p.passes) and p.passes[0] == 0)
    print(f"{len(season)} possessions, {quick} without a first pass, "
          f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")


def main():
    cfg = Settings()
    keras.utils.set_random_seed(cfg.seed)
    season, features, points = load_season(cfg)
    step = PointsModel(cfg).stepper(features, points, cfg.batch)
    guard = MemoryGuard(cfg.guard_every, cfg.memory_limit_mb)

    losses = []
    start = time.perf_counter()
    for n in range(cfg.steps):
        loss = step()
        guard(n)
        if n % 50 == 0 or n == cfg.steps - 1:
            losses.append(float(loss))
    seconds = time.perf_counter() - start

    report(season, losses)
    print(f"peak {max(guard.peaks):.0f} MB")
    print("WORK", cfg.steps * cfg.batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
