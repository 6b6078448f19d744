"""Factorisation machine with field pairs for ad placement, TF1 code moved to TF2."""
import time

import numpy as np
import tensorflow as tf

FIELDS, BUCKETS, DIM = 18, 40, 16


def impressions(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, BUCKETS, (n, FIELDS)).astype(np.int32)
    hidden = rng.normal(0, 0.6, (FIELDS, BUCKETS, 3))
    e = hidden[np.arange(FIELDS), x]
    logit = 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(-1) * 0.4 - 1.0
    return x, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)


class PairwiseFM(tf.Module):
    def __init__(self):
        super().__init__()
        normal = tf.random_normal_initializer(stddev=0.05, seed=3)
        self.bias = tf.Variable(0.0)
        self.linear = tf.Variable(tf.zeros((FIELDS * BUCKETS, 1)))
        self.factors = tf.Variable(normal((FIELDS * BUCKETS, DIM)))

    def __call__(self, x):
        rows = x + tf.range(FIELDS) * BUCKETS
        first = tf.reduce_sum(tf.gather(self.linear, rows), (1, 2))
        v = tf.unstack(tf.gather(self.factors, rows), axis=1)
        second = 0.0
        for i in range(FIELDS):
            for j in range(i + 1, FIELDS):
                second += tf.reduce_sum(v[i] * v[j], axis=1)
        return self.bias + first + second


class Job:
    def __init__(self, lr, l2):
        self.fm, self.l2 = PairwiseFM(), l2
        self.opt = tf.keras.optimizers.Adagrad(lr)
        self.opt.build(list(self.fm.trainable_variables))

    @tf.function
    def train_op(self, x, y):
        with tf.GradientTape() as tape:
            ce = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, self.fm(x)))
            loss = ce + self.l2 * tf.nn.l2_loss(self.fm.factors)
        variables = list(self.fm.trainable_variables)
        self.opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return ce


def main(steps=900, batch=512):
    x, y = impressions(100_000)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True).cache().repeat().prefetch(4)
    batches, job = iter(ds), Job(0.05, 1e-5)
    begin = time.perf_counter()
    for i in range(steps):
        bx, by = next(batches)
        ce = job.train_op(bx, by)
        if i % 225 == 0:
            print("step", i, "log loss", float(ce))
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


if __name__ == "__main__":
    main()
