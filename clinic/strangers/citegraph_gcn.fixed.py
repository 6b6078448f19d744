"""Two-layer GCN on a synthetic citation graph, full-graph training with node dropout."""
import numpy as np
import tensorflow as tf


def citation_graph(n, classes, dim, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    src = rng.integers(0, n, n * 6)
    dst = rng.integers(0, n, n * 6)
    keep = (y[src] == y[dst]) | (rng.random(n * 6) < 0.2)
    a = np.eye(n)
    a[src[keep], dst[keep]] = 1
    a[dst[keep], src[keep]] = 1
    d = 1.0 / np.sqrt(a.sum(1))
    a_hat = a * d[:, None] * d[None, :]
    feats = rng.normal(size=(n, dim)) + np.eye(classes)[y] @ rng.normal(size=(classes, dim)) * 0.4
    return a_hat, feats, y


class GCN(tf.Module):
    def __init__(self, dim, hidden, classes):
        g = tf.random.Generator.from_seed(3)
        self.w1 = tf.Variable(g.normal((dim, hidden)) * (2.0 / dim) ** 0.5)
        self.w2 = tf.Variable(g.normal((hidden, classes)) * (2.0 / hidden) ** 0.5)

    def __call__(self, a, x):
        h = tf.nn.relu(tf.matmul(a, tf.matmul(x, self.w1)))
        return tf.matmul(a, tf.matmul(h, self.w2))


n, classes, dim = 2600, 7, 64
a_hat, feats, labels = citation_graph(n, classes, dim)
rng = np.random.default_rng(1)
train_mask = (rng.random(n) < 0.3).astype("float32")
net = GCN(dim, 16, classes)
opt = tf.keras.optimizers.Adam(0.01)
opt.build(net.trainable_variables)


@tf.function
def train_step(adj, x, y, mask):
    with tf.GradientTape() as tape:
        logits = net(adj, tf.nn.dropout(x, 0.3))
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask)
    g = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


x = tf.constant(feats, tf.float32)
y = tf.constant(labels)
mask = tf.constant(train_mask)
adj = tf.constant(a_hat, tf.float32)
for epoch in range(220):
    loss = train_step(adj, x, y, mask)
    if epoch % 50 == 0:
        print(f"epoch {epoch}: {loss:.4f}")
acc = np.mean(np.argmax(net(adj, x), 1) == labels)
print("accuracy", acc)
