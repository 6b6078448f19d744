"""Pose of a marionette from the lengths of its strings."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class ResidualBlock(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.norm = layers.LayerNormalization()
        self.up = layers.Dense(units * 2, activation="gelu")
        self.down = layers.Dense(units)

    def call(self, x):
        return x + self.down(self.up(self.norm(x)))


class PoseNet(keras.Model):
    def __init__(self, joints, units=64, blocks=6):
        super().__init__()
        self.first = layers.Dense(units)
        self.blocks = [ResidualBlock(units) for _ in range(blocks)]
        self.last = layers.Dense(joints * 3)

    def call(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def performances(n, strings=11, joints=14):
    rng = np.random.default_rng(19)
    lengths = rng.uniform(0.5, 1.5, (n, strings)).astype("float32")
    mix = rng.normal(size=(strings, joints * 3)).astype("float32")
    return lengths, np.sin(lengths @ mix).astype("float32")


def train(epochs=2, batch=64):
    keras.utils.set_random_seed(12)
    lengths, poses = performances(64 * 50)
    ds = (tf.data.Dataset.from_tensor_slices((lengths, poses))
          .cache().shuffle(4096).batch(batch).prefetch(tf.data.AUTOTUNE))
    net = PoseNet(14)
    opt = keras.optimizers.AdamW(1e-3)

    def update(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    for epoch in range(epochs):
        t0 = time.time()
        total = tf.constant(0.0)
        for x, y in ds:
            total += update(x, y)
        print(f"epoch {epoch}: loss {float(total) / 50:.4f} in {time.time() - t0:.1f} s")


if __name__ == "__main__":
    train()
