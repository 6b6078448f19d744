"""Momentum-contrast pre-training on sensor windows: query encoder, slow key encoder, and keys of earlier batches as negatives."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers


@dataclass
class Settings:
    batch: int = 128
    dim: int = 64
    negatives: int = 2048
    momentum: float = 0.99
    tau: float = 0.1
    steps: int = 360


def encoder(cfg):
    return Sequential([layers.Input((64, 6)), layers.Conv1D(16, 5, strides=2, activation="relu"),
                       layers.Conv1D(32, 5, strides=2, activation="relu"), layers.Flatten(),
                       layers.Dense(96, activation="relu"), layers.Dense(cfg.dim)])


class MoCo(tf.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.query, self.key = encoder(cfg), encoder(cfg)
        self.key.set_weights(self.query.get_weights())
        start = tf.math.l2_normalize(tf.random.normal((cfg.negatives, cfg.dim)), -1)
        self.bank = tf.Variable(start, trainable=False, shape=(None, cfg.dim))
        self.opt = optimizers.SGD(0.03, momentum=0.9)
        self.opt.build(self.query.trainable_variables)

    @tf.function
    def step(self, a, b):
        k = tf.math.l2_normalize(self.key(b), -1)
        with tf.GradientTape() as tape:
            q = tf.math.l2_normalize(self.query(a), -1)
            pos = tf.reduce_sum(q * k, -1, keepdims=True)
            neg = tf.matmul(q, self.bank.read_value(), transpose_b=True)
            logits = tf.concat([pos, neg], 1) / self.cfg.tau
            target = tf.zeros(tf.shape(logits)[0], tf.int32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
        w = self.query.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, w), w))
        for slow, fast in zip(self.key.trainable_variables, w):
            slow.assign(self.cfg.momentum * slow + (1.0 - self.cfg.momentum) * fast)
        self.bank.assign(tf.concat([k, self.bank.read_value()], 0))
        return loss


def windows(n):
    rng = np.random.default_rng(30)
    return np.cumsum(rng.normal(0, 0.2, (n, 64, 6)), 1).astype(np.float32)


def jitter(x):
    return x + tf.random.normal(tf.shape(x), stddev=0.05)


def main():
    cfg = Settings()
    ds = (tf.data.Dataset.from_tensor_slices(windows(6000)).shuffle(6000).repeat().batch(cfg.batch, drop_remainder=True)
          .map(lambda x: (jitter(x), jitter(x)), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2))
    moco = MoCo(cfg)
    t0 = time.perf_counter()
    for i, (a, b) in enumerate(ds.take(cfg.steps), 1):
        loss = moco.step(a, b)
        if i % 60 == 0:
            print(f"{i}: {float(loss):.3f}  {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
