"""Skip-gram with negative sampling; the log follows how far the vectors have moved from where they began."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

VOCAB, DIM, BATCH, NEG, STEPS = 60000, 64, 512, 5, 400


class SkipGram(tf.Module):
    def __init__(self):
        super().__init__()
        self.word = tf.Variable(tf.random.uniform([VOCAB, DIM], -0.05, 0.05, seed=1))
        self.context = tf.Variable(tf.zeros([VOCAB, DIM]))

    @tf.function
    def train(self, w, c, lr):
        neg = tf.random.uniform([BATCH, NEG], 0, VOCAB, tf.int32)
        ids = tf.concat([c[:, None], neg], 1)
        v, u = tf.gather(self.word, w), tf.gather(self.context, ids)
        target = tf.concat([tf.ones([BATCH, 1]), tf.zeros([BATCH, NEG])], 1)
        score = tf.einsum("bd,bnd->bn", v, u)
        loss = tf.nn.sigmoid_cross_entropy_with_logits(target, score)
        err = tf.sigmoid(score) - target
        self.word.scatter_sub(tf.IndexedSlices(lr * tf.einsum("bn,bnd->bd", err, u), w))
        du = err[..., None] * v[:, None]
        self.context.scatter_sub(tf.IndexedSlices(lr * tf.reshape(du, [-1, DIM]), tf.reshape(ids, [-1])))
        return tf.reduce_mean(loss)


def pairs(rng):
    zipf = np.minimum(rng.zipf(1.3, BATCH) - 1, VOCAB - 1).astype("int32")
    return zipf, ((zipf * 7 + rng.integers(0, 20, BATCH)) % VOCAB).astype("int32")


def main():
    rng = np.random.default_rng(0)
    sg = SkipGram()
    lr = tf.constant(0.2)
    probe = rng.integers(0, 200, 32)
    origin = sg.word.numpy()[probe]
    drift = []
    for i in range(STEPS):
        w, c = pairs(rng)
        loss = sg.train(tf.constant(w), tf.constant(c), lr)
        drift.append(np.linalg.norm(sg.word.numpy()[probe] - origin))
        if i % 100 == 0:
            print(i, float(loss), drift[-1], flush=True)


main()
