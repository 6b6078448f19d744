"""Two-layer graph convolution on a citation network, full batch, transductive split."""
import numpy as np
import tensorflow as tf
from tensorflow import keras


class CitationGraph:
    def __init__(self, nodes=2000, degree=4, classes=7, words=1000, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, nodes)
        by_class = [np.flatnonzero(self.labels == c) for c in range(classes)]
        self.edges = []
        for u in range(nodes):
            self.edges.append((u, u))
            for _ in range(degree):
                pool = by_class[self.labels[u]] if rng.random() < 0.8 else np.arange(nodes)
                self.edges.append((u, int(rng.choice(pool))))
        topic = rng.random((classes, words)) < 0.2
        self.bags = (rng.random((nodes, words)) < np.where(topic[self.labels], 0.12, 0.04)).astype(float).tolist()
        self.train_mask = rng.random(nodes) < 0.3

    def tensors(self):
        edges = tf.constant(self.edges, dtype=tf.int32)
        return tf.constant(self.bags), edges[:, 0], edges[:, 1]


class GCNLayer(keras.layers.Layer):
    def __init__(self, units, activation=None):
        super().__init__()
        self.dense = keras.layers.Dense(units)
        self.activation = keras.activations.get(activation)

    def call(self, inputs):
        h, src, dst = inputs
        n = tf.shape(h)[0]
        h = self.dense(h)
        degree = tf.math.unsorted_segment_sum(tf.ones_like(src, tf.float32), src, n)
        pooled = tf.math.unsorted_segment_sum(tf.gather(h, dst), src, n)
        return self.activation(pooled / degree[:, None])


class GCN(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.first, self.second = GCNLayer(16, "relu"), GCNLayer(classes)

    def call(self, inputs):
        bags, src, dst = inputs
        return self.second((self.first((bags, src, dst)), src, dst))


graph = CitationGraph()
labels = tf.constant(graph.labels)
mask = tf.constant(graph.train_mask, tf.float32)
model = GCN(7)
optimizer = keras.optimizers.Adam(0.01)


@tf.function
def train_step(bags, src, dst):
    with tf.GradientTape() as tape:
        logits = model((bags, src, dst))
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    hit = tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32)
    return loss, tf.reduce_sum(hit * (1 - mask)) / tf.reduce_sum(1 - mask)


bags, src, dst = graph.tensors()
for epoch in range(160):
    loss, acc = train_step(bags, src, dst)
    if epoch % 25 == 0:
        print(f"epoch {epoch:3d} loss {float(loss):.4f} test acc {float(acc):.3f}")
