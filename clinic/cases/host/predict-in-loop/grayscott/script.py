"""One-step surrogate of a 1-D Gray-Scott reaction-diffusion system, judged by its free-running error."""
import time
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    cells: int = 256
    trajectories: int = 24
    frames: int = 70
    substeps: int = 12
    batch: int = 32
    epochs: int = 8
    horizon: int = 20
    filters: int = 32
    lr: float = 1e-3
    feed: float = 0.037
    kill: float = 0.06
    diffusion: tuple = field(default=(0.16, 0.08))


def simulate(cfg, rng):
    u = np.ones((cfg.trajectories, cfg.cells))
    v = np.zeros_like(u)
    for k in range(cfg.trajectories):
        for centre in rng.integers(20, cfg.cells - 20, 3):
            u[k, centre - 6:centre + 6] = 0.5
            v[k, centre - 6:centre + 6] = 0.25 + 0.05 * rng.random(12)
    lap = lambda f: np.roll(f, 1, -1) + np.roll(f, -1, -1) - 2 * f
    out = []
    for _ in range(cfg.frames):
        out.append(np.stack([u, v], axis=-1))
        for _ in range(cfg.substeps):
            uvv = u * v * v
            u = u + cfg.diffusion[0] * lap(u) - uvv + cfg.feed * (1 - u)
            v = v + cfg.diffusion[1] * lap(v) + uvv - (cfg.feed + cfg.kill) * v
    return np.stack(out, axis=1).astype("float32")


def build(cfg):
    inp = keras.Input((cfg.cells, 2))
    h = inp
    for dilation in (1, 2, 4):
        h = layers.Conv1D(cfg.filters, 5, padding="same", dilation_rate=dilation, activation="gelu")(h)
    delta = layers.Conv1D(2, 1, kernel_initializer="zeros")(h)
    return keras.Model(inp, layers.Add()([inp, delta]))


class Surrogate:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = build(cfg)
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(self.model.trainable_variables)
        self.step = tf.function(self._step, reduce_retracing=True)

    def _step(self, now, nxt):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(now, training=True) - nxt)) * 1e3
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def free_run(self, truth):
        state = truth[0]
        drift = []
        for k in range(1, self.cfg.horizon + 1):
            state = self.model.predict(state[None], verbose=0)[0]
            drift.append(float(np.sqrt(np.mean((state - truth[k]) ** 2))))
        return drift

    def train(self, ds, truth):
        seen = 0
        for epoch in range(self.cfg.epochs):
            total = tf.zeros(())
            count = 0
            for now, nxt in ds:
                total += self.step(now, nxt)
                count += 1
                seen += self.cfg.batch
            drift = self.free_run(truth)
            print(f"epoch {epoch}: one-step {float(total) / count:.4f}  "
                  f"drift@5 {drift[4]:.4f}  drift@{self.cfg.horizon} {drift[-1]:.4f}")
        return seen


def main():
    cfg = Config()
    keras.utils.set_random_seed(3)
    movies = simulate(cfg, np.random.default_rng(3))
    train, held_out = movies[:-1], movies[-1]
    now = train[:, :-1].reshape(-1, cfg.cells, 2)
    nxt = train[:, 1:].reshape(-1, cfg.cells, 2)
    ds = (tf.data.Dataset.from_tensor_slices((now, nxt))
          .shuffle(len(now)).batch(cfg.batch, drop_remainder=True).prefetch(2))
    surrogate = Surrogate(cfg)
    t0 = time.perf_counter()
    seen = surrogate.train(ds, held_out)
    elapsed = time.perf_counter() - t0
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % elapsed)


main()
