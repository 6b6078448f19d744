"""Prototypical networks, 5-way 5-shot, on synthetic characters."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclass(frozen=True)
class Episode:
    way: int = 5
    shot: int = 5
    query: int = 15


def character_bank(n_classes=200, per_class=20, side=28):
    rng = np.random.default_rng(40)
    proto = rng.random((n_classes, 1, side, side, 1)) > 0.7
    flip = rng.random((n_classes, per_class, side, side, 1)) < 0.05
    return np.logical_xor(proto, flip).astype(np.float32)


def embedding_net():
    net = keras.Sequential([layers.Input((28, 28, 1))])
    for _ in range(4):
        net.add(layers.Conv2D(64, 3, padding="same"))
        net.add(layers.BatchNormalization())
        net.add(layers.ReLU())
        net.add(layers.MaxPooling2D())
    net.add(layers.Flatten())
    return net


def sample(bank, ep, rng):
    classes = rng.choice(len(bank), ep.way, replace=False)
    picks = rng.permuted(np.tile(np.arange(bank.shape[1]), (ep.way, 1)), axis=1)
    chosen = bank[classes[:, None], picks]
    return chosen[:, :ep.shot], chosen[:, ep.shot:ep.shot + ep.query]


def make_step(net, optimizer, ep):
    labels = tf.repeat(tf.range(ep.way), ep.query)

    @tf.function
    def step(support, query):
        with tf.GradientTape() as tape:
            flat = tf.concat([tf.reshape(support, (-1, 28, 28, 1)),
                              tf.reshape(query, (-1, 28, 28, 1))], axis=0)
            z = net(flat, training=True)
            n_support = ep.way * ep.shot
            centres = tf.reduce_mean(
                tf.reshape(z[:n_support], (ep.way, ep.shot, -1)), axis=1)
            dist = tf.reduce_sum(
                tf.square(z[n_support:, None, :] - centres[None]), axis=-1)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=-dist))
        grads = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    return step


def train(episodes=4000):
    rng = np.random.default_rng(1)
    ep, bank, net = Episode(), character_bank(), embedding_net()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(net.trainable_variables)
    for i in range(episodes):
        step = make_step(net, optimizer, ep)
        support, query = sample(bank, ep, rng)
        loss = step(tf.constant(support), tf.constant(query))
        if i % 200 == 0:
            print(i, float(loss))


if __name__ == "__main__":
    train()
