"""Self-supervised galaxy embeddings: two noisy views, InfoNCE against a queue of older keys."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

KEYS = 1024
DIM = 64


def galaxies(n=2048, size=24):
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
    a = rng.uniform(0.2, 1.0, (n, 1, 1))
    th = rng.uniform(0, np.pi, (n, 1, 1))
    u = xx * np.cos(th) + yy * np.sin(th)
    v = (yy * np.cos(th) - xx * np.sin(th)) / a
    return np.exp(-6 * (u ** 2 + v ** 2)).astype("float32").reshape(n, -1)


def encoder(width):
    return keras.Sequential([
        keras.Input((width,)),
        layers.Dense(128, activation="relu"),
        layers.Dense(DIM),
        layers.UnitNormalization(),
    ])


class KeyQueue:
    """Keys of earlier batches, newest last."""

    def __init__(self, seed=1):
        first = np.random.default_rng(seed).normal(size=(KEYS, DIM)).astype("float32")
        self.chunks = [first / np.linalg.norm(first, axis=1, keepdims=True)]

    def push(self, keys):
        self.chunks.append(keys.numpy())

    def newest(self):
        return np.concatenate(self.chunks)[-KEYS:]


def make_step(query_net, key_net, optimizer, temperature=0.1, momentum=0.99):
    @tf.function
    def step(x, queue):
        q_view = x + tf.random.normal(tf.shape(x), stddev=0.1)
        k_view = x + tf.random.normal(tf.shape(x), stddev=0.1)
        keys = key_net(k_view)
        with tf.GradientTape() as tape:
            q = query_net(q_view, training=True)
            pos = tf.reduce_sum(q * keys, axis=1, keepdims=True)
            neg = tf.matmul(q, queue, transpose_b=True)
            logits = tf.concat([pos, neg], axis=1) / temperature
            labels = tf.zeros(tf.shape(x)[0], tf.int32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, query_net.trainable_variables))
        for k, q in zip(key_net.weights, query_net.weights):
            k.assign(momentum * k + (1.0 - momentum) * q)
        return loss, keys

    return step


def main():
    keras.utils.set_random_seed(8)
    images = galaxies()
    q_net, k_net = encoder(images.shape[1]), encoder(images.shape[1])
    k_net.set_weights(q_net.get_weights())
    opt = keras.optimizers.Adam(1e-3)
    opt.build(q_net.trainable_variables)
    step = make_step(q_net, k_net, opt)
    queue = KeyQueue()
    data = tf.data.Dataset.from_tensor_slices(images).shuffle(2048, seed=2).batch(64, drop_remainder=True).prefetch(2)

    work = 0
    began = time.time()
    for epoch in range(26):
        losses = []
        for x in data:
            loss, keys = step(x, queue.newest())
            queue.push(keys)
            losses.append(loss)
            work += 64
        print("epoch %d loss %.3f" % (epoch, np.mean(losses)))
    print("WORK", work)
    print("TRAIN_SECONDS %.2f" % (time.time() - began))


main()
