"""Load rating of truss bridges by message passing; one bridge a step."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(55)


def random_bridge(rng):
    joints = int(rng.integers(40, 120))
    members = joints * 2 - 3
    nodes = rng.normal(size=(joints, 6)).astype(np.float32)
    edges = rng.integers(0, joints, (members, 2)).astype(np.int32)
    rating = np.float32(nodes[:, 0].mean() + members / joints)
    return nodes, edges, rating


class Block(tf.keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.msg = tf.keras.layers.Dense(width, activation="relu")
        self.upd = tf.keras.layers.Dense(width, activation="relu")

    def call(self, h, edges):
        src = tf.gather(h, edges[:, 0])
        dst = tf.gather(h, edges[:, 1])
        m = self.msg(tf.concat([src, dst], -1))
        pooled = tf.math.unsorted_segment_sum(m, edges[:, 1], tf.shape(h)[0])
        return self.upd(tf.concat([h, pooled], -1))


class BridgeNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.block1 = Block(32)
        self.head = tf.keras.layers.Dense(1)

    def call(self, nodes, edges):
        h = self.block1(nodes, edges)
        return self.head(tf.reduce_mean(h, 0, keepdims=True))[0, 0]


net = BridgeNet()
optimizer = tf.keras.optimizers.SGD(1e-3)


@tf.function
def train_on(nodes, edges, rating):
    with tf.GradientTape() as tape:
        loss = tf.square(net(nodes, edges) - rating)
    g = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(g, net.trainable_variables))
    return loss


rng = np.random.default_rng(12)
bridges = [random_bridge(rng) for _ in range(99)]
net(*bridges[0][:2])
optimizer.build(net.trainable_variables)

start = time.time()
running = 0.0
for i, (nodes, edges, rating) in enumerate(bridges):
    loss = train_on(tf.constant(nodes), tf.constant(edges), tf.constant(rating))
    running = loss if i == 0 else 0.9 * running + 0.1 * loss
    if i % 11 == 10:
        print(f"bridge {i + 1}: smoothed loss {float(running):.4f}")
print(f"{time.time() - start:.2f} s")
