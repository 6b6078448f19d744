"""Semi-supervised node classification on a citation graph (dense two-layer GCN, random label mini-batches)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


class Graph:
    def __init__(self, n=2200, feats=24, classes=5, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, n)
        same = self.labels[:, None] == self.labels[None]
        a = (rng.random((n, n)) < np.where(same, 0.008, 0.001)).astype(float)
        a = np.maximum(a, a.T) + np.eye(n)
        d = 1 / np.sqrt(a.sum(1))
        self.adj = a * d[:, None] * d[None]
        self.x = rng.normal(size=(n, feats)) + 0.4 * np.eye(classes, feats)[self.labels]
        self.n, self.classes = n, classes


class GCN(tf.Module):
    def __init__(self, d_in, hidden, d_out):
        super().__init__()
        init = tf.random_normal_initializer(stddev=0.2, seed=1)
        self.w0 = tf.Variable(init((d_in, hidden)))
        self.w1 = tf.Variable(init((hidden, d_out)))

    def __call__(self, adj, x):
        h = tf.nn.relu(adj @ (x @ self.w0))
        return adj @ (h @ self.w1)


class Trainer:
    def __init__(self, graph):
        self.g = graph
        self.net = GCN(graph.x.shape[1], 8, graph.classes)
        self.opt = tf.keras.optimizers.Adam(0.01)
        self.spec = tf.TensorSpec

    @tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None, None]),
                                  tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)])
    def step(self, adj, x, nodes, labels):
        with tf.GradientTape() as tape:
            logits = tf.gather(self.net(adj, x), nodes)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        params = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, params), params))
        return loss

    def fit(self, steps, batch=256):
        rng = np.random.default_rng(1)
        for it in range(steps):
            nodes = rng.choice(self.g.n, batch, replace=False).astype("int32")
            loss = self.step(self.g.adj.astype("float32"), self.g.x.astype("float32"), nodes,
                             self.g.labels[nodes].astype("int32"))
            if it % 50 == 0:
                print(f"{it:4d} loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    Trainer(Graph()).fit(200)
