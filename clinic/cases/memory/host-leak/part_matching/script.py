"""Metric learning: descriptors of the same machine part should lie together."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

CLASSES, PER_CLASS, DIM = 400, 40, 128
P, K = 32, 8
STEPS, REPORT = 420, 70


class EmbeddingBook:
    """Embeddings seen in training, for the running recall."""

    def __init__(self):
        self.z = np.zeros((0, 512), np.float32)
        self.label = np.zeros((0,), np.int64)

    def add(self, z, label):
        self.z = np.concatenate([self.z, z])
        self.label = np.concatenate([self.label, label])

    def recall_at_1(self, last=1024):
        z, y = self.z[-last:], self.label[-last:]
        sim = z @ z.T
        np.fill_diagonal(sim, -np.inf)
        return float(np.mean(y[sim.argmax(axis=1)] == y))


class PartEmbedder(keras.Model):
    def __init__(self, units=512, **kw):
        super().__init__(**kw)
        self.hidden = layers.Dense(units, activation="relu")
        self.project = layers.Dense(units)

    def call(self, x):
        return tf.math.l2_normalize(self.project(self.hidden(x)), axis=1)


def contrastive(z, y, temperature=0.1):
    same = tf.cast(y[:, None] == y[None, :], tf.float32)
    eye = tf.eye(tf.shape(z)[0])
    logits = tf.matmul(z, z, transpose_b=True) / temperature - 1e9 * eye
    logp = logits - tf.reduce_logsumexp(logits, axis=1, keepdims=True)
    pos = same - eye
    return -tf.reduce_mean(tf.reduce_sum(pos * logp, axis=1) / tf.reduce_sum(pos, axis=1))


class Fitter:
    def __init__(self, model):
        self.model = model
        self.opt = keras.optimizers.SGD(0.05, momentum=0.9)
        self.opt.build(model.trainable_variables)
        self.book = EmbeddingBook()

    @tf.function
    def _step(self, x, y):
        with tf.GradientTape() as tape:
            z = self.model(x)
            loss = contrastive(z, y)
        v = self.model.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss, z

    def run(self, sampler):
        for step in range(1, STEPS + 1):
            x, y = sampler()
            loss, z = self._step(x, y)
            self.book.add(z.numpy(), y)
            if step % REPORT == 0:
                print(f"{step:4d}  loss {float(loss):.4f}  recall@1 {self.book.recall_at_1():.3f}")


def pk_sampler(rng):
    centre = rng.standard_normal((CLASSES, 1, DIM), dtype=np.float32)
    data = centre + 1.2 * rng.standard_normal((CLASSES, PER_CLASS, DIM), dtype=np.float32)

    def draw():
        cls = rng.choice(CLASSES, P, replace=False)
        pick = rng.integers(0, PER_CLASS, (P, K))
        return data[cls[:, None], pick].reshape(P * K, DIM), np.repeat(cls, K)

    return draw


keras.utils.set_random_seed(21)
net = PartEmbedder()
net(np.zeros((1, DIM), np.float32))
Fitter(net).run(pk_sampler(np.random.default_rng(21)))
