"""Self-supervised embedding of 2048-bit Morgan fingerprints (InfoNCE with extra negatives)."""
from dataclasses import dataclass, field
from typing import Tuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

BITS = 2048
DIM = 128


@dataclass
class Recipe:
    molecules: int = 60_000
    batch: int = 256
    epochs: int = 40
    seed_negatives: int = 1024
    temperature: float = 0.1
    drop: float = 0.15
    hidden: Tuple[int, ...] = field(default=(1024, 512))


def screen_collection(n):
    rng = np.random.default_rng(99)
    scaffolds = rng.random((400, BITS)) < 0.03
    own = rng.random((n, BITS), dtype=np.float32) < 0.01
    return np.logical_or(scaffolds[rng.integers(0, 400, n)], own).astype(np.uint8)


def encoder(hidden):
    net = keras.Sequential([keras.Input((BITS,))])
    for width in hidden:
        net.add(keras.layers.Dense(width, use_bias=False))
        net.add(keras.layers.BatchNormalization())
        net.add(keras.layers.ReLU())
    net.add(keras.layers.Dense(DIM))
    return net


class NegativePool:
    LIMIT = 4096

    def __init__(self, n):
        start = tf.random.stateless_normal((n, DIM), seed=(1, 2))
        self.keys = tf.math.l2_normalize(start, axis=-1)

    def push(self, fresh):
        self.keys = tf.concat([self.keys, fresh], axis=0)[-self.LIMIT:]


class Contrast:
    def __init__(self, recipe):
        self.r = recipe
        self.net = encoder(recipe.hidden)
        self.opt = keras.optimizers.Adam(5e-4)
        self.pool = NegativePool(recipe.seed_negatives)
        self.mean_loss = keras.metrics.Mean()

    def _view(self, bits):
        keep = tf.random.uniform(tf.shape(bits)) > self.r.drop
        z = self.net(bits * tf.cast(keep, tf.float32), training=True)
        return tf.math.l2_normalize(z, axis=-1)

    @tf.function(input_signature=[
        tf.TensorSpec([None, BITS], tf.uint8),
        tf.TensorSpec([None, DIM], tf.float32),
    ])
    def learn(self, packed, negatives):
        bits = tf.cast(packed, tf.float32)
        with tf.GradientTape() as tape:
            anchor, other = self._view(bits), self._view(bits)
            keys = tf.concat([other, negatives], axis=0)
            logits = tf.matmul(anchor, keys, transpose_b=True) / self.r.temperature
            labels = tf.range(tf.shape(anchor)[0])
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        self.mean_loss.update_state(loss)
        return tf.stop_gradient(other)

    def epoch(self, ds):
        self.mean_loss.reset_state()
        for packed in ds:
            self.pool.push(self.learn(packed, self.pool.keys))
        return float(self.mean_loss.result())


def main():
    recipe = Recipe()
    bits = screen_collection(recipe.molecules)
    ds = (tf.data.Dataset.from_tensor_slices(bits)
          .shuffle(8 * 1024)
          .batch(recipe.batch, drop_remainder=True)
          .prefetch(tf.data.AUTOTUNE))
    job = Contrast(recipe)
    for i in range(recipe.epochs):
        print(f"epoch {i:02d}: {job.epoch(ds):.4f}", flush=True)
    job.net.save("fingerprint_encoder.keras")


if __name__ == "__main__":
    main()
