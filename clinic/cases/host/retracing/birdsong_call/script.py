"""Bird call recogniser on mel frames; recordings have the length the bird gave them."""
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Config:
    species: int = 12
    mels: int = 40
    recordings: int = 400
    shortest: int = 90
    longest: int = 420
    batch: int = 8
    steps: int = 80
    lr: float = 1e-3
    seed: int = 21


class Aviary:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed)
        self.labels = self.rng.integers(0, cfg.species, cfg.recordings)
        self.calls = []
        for y in self.labels:
            n = int(self.rng.integers(cfg.shortest, cfg.longest))
            frames = self.rng.normal(size=(n, cfg.mels)).astype("float32")
            frames[:, y * 3:(y * 3) + 3] += 0.5
            self.calls.append(frames)

    def batches(self, steps):
        for _ in range(steps):
            pick = self.rng.choice(len(self.calls), self.cfg.batch, replace=False)
            longest = max(len(self.calls[i]) for i in pick)
            x = np.zeros((len(pick), longest, self.cfg.mels), "float32")
            mask = np.zeros((len(pick), longest), "float32")
            for row, i in enumerate(pick):
                x[row, :len(self.calls[i])] = self.calls[i]
                mask[row, :len(self.calls[i])] = 1.0
            yield x, mask, self.labels[pick].astype("int32")


class Recogniser:
    def __init__(self, cfg):
        self.encoder = keras.Sequential([
            layers.Input((None, cfg.mels)),
            layers.Conv1D(64, 5, padding="same", activation="relu"),
            layers.Conv1D(96, 5, padding="same", activation="relu"),
            layers.Conv1D(96, 3, padding="same", activation="relu"),
        ])
        self.head = keras.Sequential([layers.Input((96,)), layers.Dense(cfg.species)])
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.vars = self.encoder.trainable_variables + self.head.trainable_variables
        self.opt.build(self.vars)

    @tf.function
    def train(self, x, mask, y):
        with tf.GradientTape() as tape:
            h = self.encoder(x, training=True)
            m = mask[..., None]
            pooled = tf.reduce_sum(h * m, 1) / tf.reduce_sum(m, 1)
            loss = self.loss(y, self.head(pooled, training=True))
        grads = tape.gradient(loss, self.vars)
        self.opt.apply_gradients(zip(grads, self.vars))
        return loss


def main():
    cfg = Config()
    keras.utils.set_random_seed(cfg.seed)
    aviary, bird = Aviary(cfg), Recogniser(cfg)
    t0 = time.perf_counter()
    for step, (x, mask, y) in enumerate(aviary.batches(cfg.steps)):
        loss = bird.train(tf.constant(x), tf.constant(mask), tf.constant(y))
        if step % 25 == 0:
            print(f"step {step:4d}  loss {float(loss):.4f}")
    t1 = time.perf_counter()
    print("WORK", cfg.steps)
    print("TRAIN_SECONDS", round(t1 - t0, 3))


main()
