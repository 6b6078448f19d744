"""Sequence VAE over shelf-sensor histories (retail refill forecasting): data, model, trainer, checkpoints, validation report."""
import argparse
import dataclasses
import json
import logging
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf

LOG = logging.getLogger("shelfvae")


# ----------------------------------------------------------------- configuration
@dataclasses.dataclass
class DataConfig:
    shelves: int = 2048
    length: int = 32
    channels: int = 6
    val_fraction: float = 0.125
    batch_size: int = 64
    seed: int = 17


@dataclasses.dataclass
class ModelConfig:
    hidden: int = 64
    latent: int = 16
    blocks: int = 1
    dropout: float = 0.05


@dataclasses.dataclass
class OptimConfig:
    learning_rate: float = 2e-3
    epochs: int = 3
    kl_start: float = 0.0
    kl_end: float = 0.6
    kl_ramp_steps: int = 480
    free_bits: float = 0.02


@dataclasses.dataclass
class Config:
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    optim: OptimConfig = dataclasses.field(default_factory=OptimConfig)
    workdir: str = ""

    def save(self, folder):
        (folder / "config.json").write_text(json.dumps(dataclasses.asdict(self), indent=1))


# ----------------------------------------------------------------- data
def simulate(cfg: DataConfig):
    g = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.length, dtype=np.float32)
    period = g.uniform(5, 24, (cfg.shelves, 1, cfg.channels)).astype(np.float32)
    phase = g.uniform(0, 2 * np.pi, (cfg.shelves, 1, cfg.channels)).astype(np.float32)
    level = g.normal(0, 0.4, (cfg.shelves, 1, cfg.channels)).astype(np.float32)
    x = np.sin(2 * np.pi * t[None, :, None] / period + phase) + level
    x += 0.05 * g.standard_normal(x.shape, dtype=np.float32)
    age = g.integers(0, 5, cfg.shelves).astype(np.int32)
    return x, age


def make_datasets(cfg: DataConfig):
    x, age = simulate(cfg)
    cut = int(len(x) * cfg.val_fraction)

    def pack(a, b, training):
        ds = tf.data.Dataset.from_tensor_slices({"series": a, "age": b})
        if training:
            ds = ds.shuffle(len(a), seed=cfg.seed)
        return ds.batch(cfg.batch_size, drop_remainder=training).prefetch(tf.data.AUTOTUNE)

    return pack(x[cut:], age[cut:], True), pack(x[:cut], age[:cut], False)


# ----------------------------------------------------------------- model
class ResidualBlock(tf.keras.layers.Layer):
    def __init__(self, width, dilation, dropout):
        super().__init__()
        self.conv = tf.keras.layers.Conv1D(width, 3, padding="same", dilation_rate=dilation, activation="relu")
        self.mix = tf.keras.layers.Dense(width)
        self.drop = tf.keras.layers.Dropout(dropout)

    def call(self, x, training=False):
        return x + self.drop(self.mix(self.conv(x)), training=training)


class SequenceVAE(tf.keras.Model):
    def __init__(self, data: DataConfig, cfg: ModelConfig):
        super().__init__()
        self.length = data.length
        self.latent = cfg.latent
        self.stem = tf.keras.layers.Dense(cfg.hidden)
        self.age = tf.keras.layers.Embedding(5, cfg.hidden)
        self.enc = [ResidualBlock(cfg.hidden, 2 ** i, cfg.dropout) for i in range(cfg.blocks)]
        self.to_stats = tf.keras.layers.Dense(2 * cfg.latent)
        self.from_latent = tf.keras.layers.Dense(cfg.hidden)
        self.position = self.add_weight(shape=(1, data.length, cfg.hidden), initializer="random_normal")
        self.dec = [ResidualBlock(cfg.hidden, 2 ** i, cfg.dropout) for i in range(cfg.blocks)]
        self.head = tf.keras.layers.Dense(data.channels)

    def encode(self, series, age, training):
        h = self.stem(series) + self.age(age)[:, None, :]
        for b in self.enc:
            h = b(h, training=training)
        return tf.split(self.to_stats(tf.reduce_mean(h, axis=1)), 2, axis=-1)

    def call(self, batch, training=False):
        mean, logvar = self.encode(batch["series"], batch["age"], training)
        z = mean
        if training:
            z += tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        h = self.from_latent(z)[:, None, :] + self.position
        for b in self.dec:
            h = b(h, training=training)
        return self.head(h), mean, logvar


# ----------------------------------------------------------------- training
class Schedule:
    """Linear ramp of the weight of the KL term."""

    def __init__(self, cfg: OptimConfig):
        self.cfg = cfg

    def at(self, step):
        c = self.cfg
        part = min(1.0, step / c.kl_ramp_steps)
        return round(c.kl_start + (c.kl_end - c.kl_start) * part, 2)


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.folder = pathlib.Path(cfg.workdir or tempfile.mkdtemp(prefix="shelfvae_"))
        cfg.save(self.folder)
        self.train_ds, self.val_ds = make_datasets(cfg.data)
        self.model = SequenceVAE(cfg.data, cfg.model)
        self.optimizer = tf.keras.optimizers.Adam(cfg.optim.learning_rate)
        self.schedule = Schedule(cfg.optim)
        self.step = 0
        self.model(self.inputs(next(iter(self.val_ds))))
        self.optimizer.build(self.model.trainable_variables)
        self.ckpt = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=self.model), str(self.folder / "ckpt"), max_to_keep=1)
        self.best = float("inf")

    @staticmethod
    def inputs(batch):
        return {"series": batch["series"], "age": batch["age"]}

    def losses(self, batch, out):
        recon, mean, logvar = out
        rec = tf.reduce_mean(tf.reduce_sum(tf.square(recon - batch["series"]), axis=[1, 2]))
        kl = 0.5 * (tf.exp(logvar) + tf.square(mean) - 1.0 - logvar)
        kl = tf.reduce_sum(tf.maximum(tf.reduce_mean(kl, axis=0), self.cfg.optim.free_bits))
        return rec, kl

    @tf.function
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            rec, kl = self.losses(batch, self.model(self.inputs(batch), training=True))
            loss = rec + batch["beta"] * kl
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 100.0)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return {"loss": loss, "rec": rec, "kl": kl}

    @tf.function
    def eval_step(self, batch):
        rec, kl = self.losses(batch, self.model(self.inputs(batch), training=False))
        return tf.stack([rec, kl])

    def run_epoch(self):
        t0 = time.perf_counter()
        for batch in self.train_ds:
            batch["beta"] = tf.constant(self.schedule.at(self.step), tf.float32)
            logs = self.train_step(batch)
            self.step += 1
        return {k: float(v) for k, v in logs.items()}, time.perf_counter() - t0

    def validate(self):
        rec, kl = np.mean([self.eval_step(b).numpy() for b in self.val_ds], axis=0)
        if rec < self.best:
            self.best = rec
            self.ckpt.save()
        return rec, kl

    def run(self):
        for epoch in range(self.cfg.optim.epochs):
            logs, seconds = self.run_epoch()
            rec, kl = self.validate()
            LOG.info("epoch %d step %d loss %.3f rec %.3f kl %.3f | val rec %.3f kl %.3f | %.2f s",
                     epoch, self.step, logs["loss"], logs["rec"], logs["kl"], rec, kl, seconds)


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--workdir", default="")
    a = p.parse_args()
    cfg = Config(workdir=a.workdir)
    cfg.optim.epochs = a.epochs
    return cfg


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    tf.keras.utils.set_random_seed(3)
    Trainer(parse()).run()
