"""Insurance claim screening: deep and cross network, early stopping by hand on validation AUC."""
import time

import numpy as np
import tensorflow as tf

FIELDS, VOCAB, NUMERIC = 10, 50, 12


def claims(n, seed):
    rng = np.random.default_rng(seed)
    cats = rng.integers(0, VOCAB, (n, FIELDS)).astype(np.int32)
    nums = rng.normal(size=(n, NUMERIC)).astype(np.float32)
    score = nums[:, 0] * nums[:, 1] + 0.8 * (cats[:, 0] % 7 == 3) + 0.05 * cats[:, 1] - 2.0
    return cats, nums, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float32)


class CrossLayer(tf.keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], shape[-1]), initializer="glorot_uniform", name="w")
        self.b = self.add_weight(shape=(shape[-1],), initializer="zeros", name="b")

    def call(self, x, x0):
        return x0 * (tf.matmul(x, self.w) + self.b) + x


class DCN(tf.keras.Model):
    def __init__(self, dim=8):
        super().__init__()
        self.emb = tf.keras.layers.Embedding(FIELDS * VOCAB, dim)
        self.cross = [CrossLayer() for _ in range(2)]
        self.deep = [tf.keras.layers.Dense(u, activation="relu") for u in (128, 64)]
        self.out = tf.keras.layers.Dense(1)

    def call(self, cats, nums):
        e = self.emb(cats + tf.range(FIELDS) * VOCAB)
        x0 = x = tf.concat([tf.reshape(e, (-1, FIELDS * 8)), nums], 1)
        for c in self.cross:
            x = c(x, x0)
        h = x0
        for d in self.deep:
            h = d(h)
        return self.out(tf.concat([x, h], 1))[:, 0]


def rank_auc(y, p):
    order = np.argsort(p)
    ranks = np.empty(len(p))
    ranks[order] = np.arange(1, len(p) + 1)
    pos = y.sum()
    return (ranks[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))


class Screening:
    def __init__(self, patience=200):
        self.model = DCN()
        self.opt = tf.keras.optimizers.Adam(1e-3)
        self.best, self.bad, self.patience = 0.0, 0, patience

    @tf.function
    def step(self, c, n, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, self.model(c, n)))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        return loss

    @tf.function
    def score(self, c, n):
        return tf.sigmoid(self.model(c, n))

    def validate(self, ds, y):
        p = np.concatenate([self.score(c, n).numpy() for c, n in ds])
        auc = rank_auc(y, p)
        self.bad = 0 if auc > self.best else self.bad + 1
        self.best = max(auc, self.best)
        return auc


def main(steps=900, check=20, batch=256):
    train, val = claims(60000, 0), claims(24000, 1)
    ds = tf.data.Dataset.from_tensor_slices(train).shuffle(20000).repeat().batch(batch).prefetch(4)
    dv = tf.data.Dataset.from_tensor_slices(val[:2]).batch(1000).cache().prefetch(2)
    job, rows = Screening(), iter(ds)
    start = time.perf_counter()
    for i in range(1, steps + 1):
        c, n, y = next(rows)
        loss = job.step(c, n, y)
        if i % check == 0:
            auc = job.validate(dv, val[2])
            if job.bad > job.patience:
                break
        if i % 300 == 0:
            print(f"{i}: loss {float(loss):.4f} auc {auc:.4f} best {job.best:.4f}")
    print("WORK", i * batch)
    print("TRAIN_SECONDS", time.perf_counter() - start)


main()
