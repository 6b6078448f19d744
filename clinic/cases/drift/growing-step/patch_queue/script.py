"""Contrastive pre-training of a patch encoder on synthetic textures, MoCo flavoured (one encoder, a queue of keys)."""
import argparse
import time

import numpy as np
import tensorflow as tf


def textures(n, side, rng):
    yy, xx = np.mgrid[0:side, 0:side].astype("float32") / side
    freq = rng.uniform(2, 14, (n, 2, 1, 1)).astype("float32")
    phase = rng.uniform(0, 6.28, (n, 1, 1)).astype("float32")
    return np.sin(freq[:, 0] * xx * 6.28 + freq[:, 1] * yy * 6.28 + phase)[..., None]


class Pretrainer(tf.keras.Model):
    def __init__(self, dim=128, tau=0.1, bank_size=1024):
        super().__init__()
        self.tau = tau
        self.bank_size = bank_size
        self.encoder = tf.keras.Sequential([
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(dim),
        ])
        first = tf.math.l2_normalize(tf.random.normal((bank_size, dim), seed=3), axis=-1)
        self.bank = tf.Variable(first, shape=(None, dim), trainable=False)
        self.loss_mean = tf.keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_mean]

    def push(self, keys):
        self.bank.assign(tf.concat([self.bank, keys], axis=0))

    def train_step(self, data):
        view_a, view_b = data
        keys = tf.stop_gradient(tf.math.l2_normalize(self.encoder(view_b, training=True), axis=-1))
        with tf.GradientTape() as tape:
            q = tf.math.l2_normalize(self.encoder(view_a, training=True), axis=-1)
            pos = tf.reduce_sum(q * keys, axis=-1, keepdims=True)
            neg = tf.matmul(q, self.bank, transpose_b=True)
            logits = tf.concat([pos, neg], axis=1) / self.tau
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.zeros(tf.shape(q)[0], tf.int32), logits=logits))
        variables = self.encoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.push(keys)
        self.loss_mean.update_state(loss)
        return {"loss": self.loss_mean.result()}


def two_views(x):
    noise = lambda: tf.random.normal(tf.shape(x), stddev=0.05)
    return x + noise(), tf.image.flip_left_right(x) + noise()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=2048)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=12)
    args = p.parse_args()
    x = textures(args.images, 28, np.random.default_rng(0))
    ds = (tf.data.Dataset.from_tensor_slices(x).shuffle(args.images)
          .batch(args.batch, drop_remainder=True)
          .map(two_views, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2))
    model = Pretrainer()
    model.encoder.build((None, 28, 28, 1))
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3))
    t0 = time.perf_counter()
    model.fit(ds, epochs=args.epochs, verbose=2)
    print(f"train {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
