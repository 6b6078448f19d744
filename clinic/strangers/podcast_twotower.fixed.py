"""Two-tower podcast recommender: sampled in-batch softmax, SGD with clipped gradients."""
import argparse

import keras
import numpy as np
import tensorflow as tf


def plays(n, users, shows, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.integers(0, users, n)
    s = (u * 7 + rng.geometric(0.01, n)) % shows
    return u.astype("int32"), s.astype("int32")


class TwoTower(keras.Model):
    def __init__(self, users, shows, dim):
        super().__init__()
        self.user = keras.layers.Embedding(users, dim)
        self.show = keras.layers.Embedding(shows, dim)
        self.mix = keras.layers.Dense(dim)

    def call(self, inputs):
        u, s = inputs
        return self.mix(self.user(u)), self.show(s)


def make_step(model, opt, clip):
    @tf.function
    def step(u, s):
        with tf.GradientTape() as tape:
            a, b = model((u, s))
            logits = tf.matmul(a, b, transpose_b=True)
            labels = tf.range(tf.shape(u)[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        grads = tape.gradient(loss, model.trainable_variables)
        grads = [tf.clip_by_norm(g, clip) for g in grads]
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss
    return step


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=300_000)
    ap.add_argument("--shows", type=int, default=60_000)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--steps", type=int, default=250)
    args = ap.parse_args()
    u, s = plays(120_000, args.users, args.shows)
    ds = (tf.data.Dataset.from_tensor_slices((u, s)).shuffle(20_000).repeat()
          .batch(256, drop_remainder=True).prefetch(4))
    model = TwoTower(args.users, args.shows, args.dim)
    model((u[:2], s[:2]))
    opt = keras.optimizers.SGD(0.5)
    opt.build(model.trainable_variables)
    step = make_step(model, opt, 1.0)
    for i, (ub, sb) in enumerate(ds.take(args.steps)):
        loss = step(ub, sb)
        if i % 50 == 0:
            print(i, float(loss))


if __name__ == "__main__":
    main()
