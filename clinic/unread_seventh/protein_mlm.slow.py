"""Masked residue modelling on UniRef50 with a small convolutional encoder (CARP-like)."""
from __future__ import annotations

import dataclasses
import glob
import logging
import os
import random

import keras
import numpy as np
import tensorflow as tf
from keras import layers

log = logging.getLogger("protein_mlm")

ALPHABET = "ACDEFGHIKLMNPQRSTVWYBZXUO"
PAD, MASK = 0, 1
VOCAB = {c: i + 2 for i, c in enumerate(ALPHABET)}
UNK = VOCAB["X"]
VOCAB_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Config:
    shards: str = "/data/uniref50/seqs-*.txt"
    held_out: int = 4
    max_len: int = 512
    mask_rate: float = 0.15
    batch: int = 128
    width: int = 128
    depth: int = 6
    steps: int = 200_000
    steps_per_epoch: int = 2_000
    lr: float = 1e-3
    seed: int = 0
    workdir: str = "runs/carp_small"


def corrupt(sequence: bytes, max_len: int, rate: float):
    residues = sequence.decode("ascii")
    if len(residues) > max_len:
        begin = random.randint(0, len(residues) - max_len)
        residues = residues[begin : begin + max_len]
    inputs = np.zeros(max_len, np.int32)
    targets = np.zeros(max_len, np.int32)
    weights = np.zeros(max_len, np.float32)
    for i, residue in enumerate(residues):
        token = VOCAB.get(residue, UNK)
        inputs[i] = targets[i] = token
        if random.random() < rate:
            weights[i] = 1.0
            dice = random.random()
            if dice < 0.8:
                inputs[i] = MASK
            elif dice < 0.9:
                inputs[i] = random.randint(2, 21)
    return inputs, targets, weights


class Corpus:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        files = sorted(glob.glob(cfg.shards))
        self.train_files, self.val_files = files[cfg.held_out :], files[: cfg.held_out]

    def _example(self, line):
        cfg = self.cfg
        parts = tf.numpy_function(
            corrupt, [line, cfg.max_len, cfg.mask_rate], (tf.int32, tf.int32, tf.float32)
        )
        for part in parts:
            part.set_shape((cfg.max_len,))
        return tuple(parts)

    def _pipeline(self, files, training):
        ds = tf.data.Dataset.from_tensor_slices(files)
        if training:
            ds = ds.shuffle(len(files), seed=self.cfg.seed).repeat()
        ds = ds.interleave(
            tf.data.TextLineDataset,
            cycle_length=16,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=not training,
        )
        if training:
            ds = ds.shuffle(20_000, seed=self.cfg.seed)
        ds = ds.map(self._example, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not training)
        ds = ds.batch(self.cfg.batch, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)

    def train(self):
        return self._pipeline(self.train_files, True)

    def val(self):
        return self._pipeline(self.val_files, False).take(100)


class ByteNetBlock(layers.Layer):
    def __init__(self, width, dilation, **kwargs):
        super().__init__(**kwargs)
        self.norm1 = layers.LayerNormalization()
        self.down = layers.Dense(width // 2, activation="gelu")
        self.conv = layers.Conv1D(width // 2, 5, padding="same", dilation_rate=dilation, activation="gelu")
        self.norm2 = layers.LayerNormalization()
        self.up = layers.Dense(width)

    def build(self, shape):
        half = (*shape[:-1], self.down.units)
        self.norm1.build(shape)
        self.down.build(shape)
        self.conv.build(half)
        self.norm2.build(half)
        self.up.build(half)
        self.built = True

    def call(self, x):
        y = self.conv(self.down(self.norm1(x)))
        return x + self.up(self.norm2(y))


def build_model(cfg: Config):
    tokens = keras.Input((cfg.max_len,), dtype="int32")
    x = layers.Embedding(VOCAB_SIZE, cfg.width)(tokens)
    for i in range(cfg.depth):
        x = ByteNetBlock(cfg.width, 2 ** (i % 5))(x)
    x = layers.LayerNormalization()(x)
    return keras.Model(tokens, layers.Dense(VOCAB_SIZE, dtype="float32")(x), name="carp_small")


def main(cfg: Config = Config()):
    logging.basicConfig(level=logging.INFO)
    keras.utils.set_random_seed(cfg.seed)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    os.makedirs(cfg.workdir, exist_ok=True)
    corpus = Corpus(cfg)
    log.info("%d training files, %d held out", len(corpus.train_files), len(corpus.val_files))

    model = build_model(cfg)
    rate = keras.optimizers.schedules.CosineDecay(0.0, cfg.steps, warmup_target=cfg.lr, warmup_steps=4_000)
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["sparse_categorical_accuracy"],
    )
    model.fit(
        corpus.train(),
        steps_per_epoch=cfg.steps_per_epoch,
        epochs=cfg.steps // cfg.steps_per_epoch,
        validation_data=corpus.val(),
        callbacks=[
            keras.callbacks.BackupAndRestore(os.path.join(cfg.workdir, "backup")),
            keras.callbacks.CSVLogger(os.path.join(cfg.workdir, "log.csv"), append=True),
        ],
        verbose=2,
    )
    model.save(os.path.join(cfg.workdir, "final.keras"))


if __name__ == "__main__":
    main()
