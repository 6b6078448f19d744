"""Metric learning for machine-part re-identification.  Renders synthetic parts, trains an embedder, tracks recall@1."""
import argparse
import dataclasses
import logging
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

logger = logging.getLogger("parts")


@dataclasses.dataclass(frozen=True)
class RenderSpec:
    identities: int = 64
    views: int = 16
    side: int = 24
    noise: float = 0.05


@dataclasses.dataclass(frozen=True)
class LossSpec:
    margin: float = 0.3
    temperature: float = 0.05
    weight_center: float = 0.01


@dataclasses.dataclass
class RunSpec:
    render: RenderSpec = RenderSpec()
    loss: LossSpec = LossSpec()
    p: int = 12
    k: int = 5
    dim: int = 64
    steps: int = 300
    validate_every: int = 100
    lr: float = 1e-3
    seed: int = 23
    out: str = ""


# ---------------------------------------------------------------- data
class PartRenderer:
    def __init__(self, spec: RenderSpec, seed: int):
        self.spec = spec
        self.rng = np.random.default_rng(seed)
        ax = np.linspace(-1, 1, spec.side, dtype=np.float32)
        self.gx, self.gy = np.meshgrid(ax, ax)

    def identity(self):
        k = self.rng.integers(3, 9)
        return {"k": k, "r": self.rng.uniform(0.3, 0.8), "amp": self.rng.uniform(0.05, 0.25),
                "hole": self.rng.uniform(0.05, 0.25), "tint": self.rng.uniform(0.3, 1.0, 3)}

    def view(self, ident):
        rot = self.rng.uniform(0, 2 * np.pi)
        sx, sy = self.rng.normal(0, 0.08, 2)
        x, y = self.gx - sx, self.gy - sy
        radius, theta = np.hypot(x, y), np.arctan2(y, x) + rot
        edge = ident["r"] + ident["amp"] * np.cos(ident["k"] * theta)
        mask = ((radius < edge) & (radius > ident["hole"])).astype(np.float32)
        image = mask[..., None] * ident["tint"].astype(np.float32)
        return image + self.rng.normal(0, self.spec.noise, image.shape).astype(np.float32)

    def render(self):
        x, y = [], []
        for i in range(self.spec.identities):
            ident = self.identity()
            for _ in range(self.spec.views):
                x.append(self.view(ident))
                y.append(i)
        return np.stack(x).astype(np.float32), np.array(y, np.int32)


def pk_batches(x, y, p, k):
    """Batches of p identities with k views each."""
    ids = tf.constant(np.unique(y))
    views = len(y) // len(np.unique(y))
    xt = tf.constant(x)
    yt = tf.constant(y)

    def draw(_):
        chosen = tf.random.shuffle(ids)[:p]
        cols = tf.argsort(tf.random.uniform((p, views)), axis=1)[:, :k]
        rows = tf.reshape(chosen[:, None] * views + cols, [-1])
        return tf.gather(xt, rows), tf.gather(yt, rows)

    return tf.data.Dataset.counter().map(draw, num_parallel_calls=2).prefetch(4)


# ---------------------------------------------------------------- network and loss
def embedder(side, dim):
    inputs = keras.Input((side, side, 3))
    h = inputs
    for width in (12, 24):
        h = keras.layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(h)
        h = keras.layers.BatchNormalization()(h)
        h = keras.layers.ReLU()(h)
    h = keras.layers.GlobalAveragePooling2D()(h)
    h = keras.layers.Dense(dim)(h)
    return keras.Model(inputs, keras.layers.UnitNormalization()(h))


class MiningLoss:
    """Soft-margin triplet loss with hardest positive and hardest negative, plus a pull to the batch centre."""

    def __init__(self, spec: LossSpec, batch: int):
        self.spec = spec
        self.batch = batch

    def _pairs(self, z):
        return 1.0 - tf.matmul(z, z, transpose_b=True)

    def _hardest(self, z, labels):
        d = self._pairs(z)
        same = tf.equal(labels[:, None], labels[None, :])
        return tf.reduce_max(tf.where(same, d, -1.0), axis=1), tf.reduce_min(tf.where(same, 3.0, d), axis=1)

    def __call__(self, z, labels):
        hp, hn = self._hardest(z, labels)
        triplet = tf.reduce_mean(tf.nn.softplus((hp - hn + self.spec.margin) / self.spec.temperature))
        center = tf.reduce_mean(tf.square(tf.reduce_mean(z, axis=0)))
        return triplet * self.spec.temperature + self.spec.weight_center * center


# ---------------------------------------------------------------- run
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total = tf.zeros(())
        self.count = 0
        self.t0 = time.perf_counter()

    def add(self, value):
        self.total += value
        self.count += 1

    def read(self):
        out = float(self.total) / self.count, (time.perf_counter() - self.t0) / self.count * 1e3
        self.reset()
        return out


class Run:
    def __init__(self, spec: RunSpec):
        self.spec = spec
        x, y = PartRenderer(spec.render, spec.seed).render()
        split = spec.render.identities * 3 // 4 * spec.render.views
        self.train = pk_batches(x[:split], y[:split], spec.p, spec.k)
        self.val = x[split:], y[split:]
        self.net = embedder(spec.render.side, spec.dim)
        self.loss = MiningLoss(spec.loss, spec.p * spec.k)
        self.opt = keras.optimizers.Adam(spec.lr)
        self.opt.build(self.net.trainable_variables)
        self.meter = Meter()

    @tf.function
    def update(self, images, labels):
        with tf.GradientTape() as tape:
            value = self.loss(self.net(images, training=True), labels)
        grads = tape.gradient(value, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return value

    @tf.function
    def recall_at_1(self, images, labels):
        z = self.net(images, training=False)
        sim = tf.matmul(z, z, transpose_b=True) - 4.0 * tf.eye(tf.shape(z)[0])
        hit = tf.equal(tf.gather(labels, tf.argmax(sim, axis=1)), labels)
        return tf.reduce_mean(tf.cast(hit, tf.float32))

    def checkpoint(self, step):
        path = os.path.join(self.spec.out, f"parts-{step:05d}.weights.h5")
        self.net.save_weights(path)
        return path

    def go(self):
        for step, (images, labels) in enumerate(self.train.take(self.spec.steps), 1):
            self.meter.add(self.update(images, labels))
            if step % self.spec.validate_every == 0:
                loss, ms = self.meter.read()
                r1 = float(self.recall_at_1(*self.val))
                logger.info("step %d loss %.4f R@1 %.3f %.1f ms/step -> %s", step, loss, r1, ms,
                            os.path.basename(self.checkpoint(step)))
                self.meter.reset()


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--out", default="")
    args = ap.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    spec = RunSpec(steps=args.steps, out=args.out or tempfile.mkdtemp(prefix="parts_"))
    keras.utils.set_random_seed(spec.seed)
    Run(spec).go()


if __name__ == "__main__":
    main()
