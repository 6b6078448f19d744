"""TransE-like embeddings of a knowledge graph; facts live in memory as plain Python objects."""
import collections
import contextlib
import gc
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

Fact = collections.namedtuple("Fact", "head rel tail source")
ENTITIES, RELATIONS, DIM, BATCH, STEPS = 4000, 30, 96, 512, 130


class Graph:
    def __init__(self, n, seed=0):
        r = np.random.default_rng(seed)
        h, t = r.integers(0, ENTITIES, (2, n)).tolist()
        rel = r.integers(0, RELATIONS, n).tolist()
        self.facts = [Fact(a, b, c, {"doc": i}) for i, (a, b, c) in enumerate(zip(h, rel, t))]
        self.out = collections.defaultdict(list)
        for f in self.facts:
            self.out[f.head].append(f)

    def __len__(self):
        return len(self.facts)

    def draw(self, r, n):
        rows = [self.facts[i] for i in r.integers(0, len(self.facts), n)]
        return np.array([(f.head, f.rel, f.tail) for f in rows], "int32")


@contextlib.contextmanager
def tidy():
    try:
        yield
    finally:
        gc.collect()


class TransE(tf.Module):
    def __init__(self):
        super().__init__()
        self.e = tf.Variable(tf.random.stateless_uniform([ENTITIES, DIM], [1, 2], -0.1, 0.1))
        self.r = tf.Variable(tf.random.stateless_uniform([RELATIONS, DIM], [3, 4], -0.1, 0.1))

    def distance(self, h, r, t):
        d = tf.gather(self.e, h) + tf.gather(self.r, r) - tf.gather(self.e, t)
        return tf.reduce_sum(tf.abs(d), axis=-1)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int32), tf.TensorSpec([None, 8], tf.int32)])
    def update(self, pos, corrupt):
        h, r, t = tf.unstack(pos, axis=1)
        with tf.GradientTape() as tape:
            good = self.distance(h, r, t)
            bad = self.distance(h[:, None], r[:, None], corrupt)
            loss = tf.reduce_mean(tf.nn.relu(1.0 + good[:, None] - bad))
        for v, g in zip((self.e, self.r), tape.gradient(loss, (self.e, self.r))):
            v.scatter_sub(tf.IndexedSlices(0.5 * g.values, g.indices))
        return loss


def main():
    graph = Graph(90_000)
    r = np.random.default_rng(1)
    model = TransE()
    mean = 0.0
    for step in range(1, STEPS + 1):
        with tidy():
            pos = graph.draw(r, BATCH)
            neg = r.integers(0, ENTITIES, (BATCH, 8), dtype="int32")
            mean += float(model.update(pos, neg)) / STEPS
    print(len(graph), "facts, mean margin loss", round(mean, 4))


main()
