"""Marketplace catalogue: puts new listings into one of 24 departments from the title's character n-grams."""
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf
import keras


@dataclass
class InputConfig:
    batch: int = 512
    grams: tuple = (3, 4, 5)
    buckets: int = 2048
    pool: int = 1
    buffered: int = 4


@dataclass
class JobConfig:
    listings: int = 220000
    departments: int = 24
    hidden: int = 32
    rate: float = 0.3
    log_every: int = 100
    input: InputConfig = field(default_factory=InputConfig)


def dump_listings(path, cfg, seed=19):
    rng = np.random.default_rng(seed)
    stems = ["lam", "cot", "ste", "bri", "fol", "wat", "mag", "oak", "tra", "neo", "sil", "ver", "kit", "pro"]
    words = np.array(["".join(rng.choice(stems, int(rng.integers(1, 4)))) for _ in range(2400)], dtype=object)
    department = rng.integers(0, cfg.departments, cfg.listings)
    general = rng.integers(0, len(words), (cfg.listings, 8))
    own = department[:, None] * 100 + rng.integers(0, 100, (cfg.listings, 8))
    picked = np.where(rng.random((cfg.listings, 8)) < 0.3, own, general)
    with path.open("w") as f:
        f.writelines(f"{d};{' '.join(title)}\n" for d, title in zip(department.tolist(), words[picked].tolist()))


class Listings:
    def __init__(self, path, cfg):
        self.path, self.cfg = path, cfg

    def _features(self, lines):
        c = self.cfg
        parts = tf.strings.split(lines, ";", maxsplit=1).to_tensor(shape=[None, 2])
        letters = tf.strings.bytes_split(tf.strings.lower(parts[:, 1]))
        grams = tf.strings.ngrams(letters, list(c.grams), separator="")
        ids = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, grams, num_buckets=c.buckets)
        rows, slots = ids.value_rowids(), ids.flat_values
        counts = tf.math.unsorted_segment_sum(tf.ones_like(slots, tf.float32), rows * c.buckets + slots,
                                              c.batch * c.buckets)
        counts = tf.reshape(counts, [c.batch, c.buckets])
        return tf.math.minimum(counts, 3.0), tf.strings.to_number(parts[:, 0], tf.int32)

    def _options(self):
        o = tf.data.Options()
        o.deterministic = True
        o.threading.private_threadpool_size = self.cfg.pool
        return o

    def stream(self):
        lines = tf.data.TextLineDataset(str(self.path), buffer_size=1 << 20)
        batches = lines.batch(self.cfg.batch, drop_remainder=True)
        return (batches.map(self._features, num_parallel_calls=tf.data.AUTOTUNE)
                .prefetch(self.cfg.buffered)
                .with_options(self._options()))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = keras.Sequential([keras.Input((cfg.input.buckets,)),
                                     keras.layers.Dense(cfg.hidden, activation="relu"),
                                     keras.layers.Dense(cfg.departments)])
        self.optimizer = keras.optimizers.SGD(cfg.rate)
        self.optimizer.build(self.net.trainable_variables)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.hits = keras.metrics.SparseCategoricalAccuracy()

    @tf.function(reduce_retracing=True)
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.net(x, training=True)
            loss = self.loss(y, logits)
        self.optimizer.apply(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables)
        self.hits.update_state(y, logits)
        return loss

    def run(self, stream):
        done, began = 0, time.perf_counter()
        for x, y in stream:
            loss = self.step(x, y)
            done += 1
            if done % self.cfg.log_every == 0:
                print(f"{done}: loss {float(loss):.3f}, accuracy {float(self.hits.result()):.3f}", file=sys.stderr)
        return done, time.perf_counter() - began


def main():
    cfg = JobConfig()
    keras.utils.set_random_seed(6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "listings.csv"
        dump_listings(path, cfg)
        done, seconds = Trainer(cfg).run(Listings(path, cfg.input).stream())
    print("WORK", done * cfg.input.batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
