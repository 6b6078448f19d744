"""Masked residue modelling on UniRef50 with a small convolutional encoder (CARP-like)."""
from __future__ import annotations

import dataclasses
import glob
import logging
import os

import keras
import numpy as np
import tensorflow as tf
from keras import layers

log = logging.getLogger("protein_mlm")

ALPHABET = "ACDEFGHIKLMNPQRSTVWYBZXUO"
PAD, MASK = 0, 1
UNK = ALPHABET.index("X") + 2
VOCAB_SIZE = 32
BYTE_TO_TOKEN = np.full(256, UNK, np.int32)
BYTE_TO_TOKEN[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET)) + 2
BYTE_TO_TOKEN[0] = PAD


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


def corrupt(sequences, max_len: int, rate: float):
    spare = tf.maximum(tf.strings.length(sequences) - max_len, 0)
    begin = tf.cast(tf.random.uniform(tf.shape(spare)) * tf.cast(spare + 1, tf.float32), tf.int32)
    begin = tf.minimum(begin, spare)
    crops = tf.strings.substr(sequences, begin, tf.fill(tf.shape(begin), max_len))
    letters = tf.io.decode_raw(crops, tf.uint8, fixed_length=max_len)
    targets = tf.gather(BYTE_TO_TOKEN, tf.cast(letters, tf.int32))

    shape = tf.shape(targets)
    chosen = (tf.random.uniform(shape) < rate) & (targets != PAD)
    dice = tf.random.uniform(shape)
    other = tf.random.uniform(shape, 2, 22, dtype=tf.int32)
    inputs = tf.where(chosen & (dice < 0.8), MASK, targets)
    inputs = tf.where(chosen & (dice >= 0.8) & (dice < 0.9), other, inputs)
    return inputs, targets, tf.cast(chosen, tf.float32)


class Corpus:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        files = sorted(glob.glob(cfg.shards))
        self.train_files, self.val_files = files[cfg.held_out :], files[: cfg.held_out]

    def _examples(self, lines):
        cfg = self.cfg
        parts = corrupt(lines, cfg.max_len, cfg.mask_rate)
        return tuple(tf.ensure_shape(part, (cfg.batch, cfg.max_len)) for part in parts)

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
        ds = ds.batch(self.cfg.batch, drop_remainder=True)
        ds = ds.map(self._examples, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not training)
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
