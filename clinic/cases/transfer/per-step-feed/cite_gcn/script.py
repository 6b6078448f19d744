"""Two-layer graph convolution on a stochastic block model (full batch, semi-supervised)."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf


def block_graph(n, classes, words, rng):
    y = rng.integers(0, classes, n)
    same = y[:, None] == y[None, :]
    a = (rng.random((n, n), dtype=np.float32) < np.where(same, 0.01, 0.001)).astype(float)
    a = np.maximum(np.triu(a, 1), np.triu(a, 1).T) + np.eye(n)
    d = 1 / np.sqrt(a.sum(1))
    topics = rng.random((classes, words)) < 0.05
    x = ((rng.random((n, words)) < 0.01) | (topics[y] & (rng.random((n, words)) < 0.2))).astype(float)
    return a * d[:, None] * d[None, :], x / np.maximum(x.sum(1, keepdims=True), 1), y


class GCN(tf.Module):
    def __init__(self, words, hidden, classes, seed=0):
        super().__init__()
        glorot = tf.keras.initializers.GlorotUniform(seed)
        self.w0 = tf.Variable(glorot((words, hidden)))
        self.w1 = tf.Variable(glorot((hidden, classes)))

    def __call__(self, adj, x, drop):
        h = tf.nn.relu(adj @ (tf.nn.dropout(x, drop) @ self.w0))
        return adj @ (tf.nn.dropout(h, drop) @ self.w1)


def main(n=2800, classes=7, words=400, epochs=170):
    rng = np.random.default_rng(44)
    adj, feats, y = block_graph(n, classes, words, rng)
    onehot = np.eye(classes)[y]
    train_mask = np.zeros(n)
    train_mask[rng.choice(n, 20 * classes, replace=False)] = 1
    net = GCN(words, 16, classes)
    opt = tf.keras.optimizers.Adam(0.01)
    opt.build(net.trainable_variables)

    @tf.function
    def train_step(adj, x, labels, mask):
        with tf.GradientTape() as tape:
            ce = tf.nn.softmax_cross_entropy_with_logits(labels, net(adj, x, 0.5))
            loss = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask) + 5e-4 * tf.nn.l2_loss(net.w0)
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    @tf.function
    def predict(adj, x):
        return tf.argmax(net(adj, x, 0.0), 1)

    t0 = time.perf_counter()
    for epoch in range(epochs):
        loss = train_step(tf.constant(adj, dtype=tf.float32), tf.constant(feats, dtype=tf.float32),
                          tf.constant(onehot, dtype=tf.float32), tf.constant(train_mask, dtype=tf.float32))
        if epoch % 50 == 49:
            hit = predict(tf.constant(adj, tf.float32), tf.constant(feats, tf.float32)).numpy() == y
            print("epoch %d loss %.4f test acc %.3f" % (epoch + 1, float(loss), hit[train_mask == 0].mean()))
    print("WORK", epochs)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


main()
