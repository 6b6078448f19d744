"""Delay of ferries by harbour: one shared net, one small correction per harbour."""
import time

import numpy as np
import tensorflow as tf

PORTS = [f"{a}{b}{c}" for a in "AEIOU" for b in "KLMNRST" for c in "abd"]
rs = np.random.RandomState(50)


def sailings(port, n=48):
    x = rs.randn(n, 10).astype(np.float32)
    y = x[:, :3].sum(1, keepdims=True) + 0.2 * (len(port) + ord(port[0]) % 7) + 0.1 * rs.randn(n, 1)
    return x, y.astype(np.float32)


class DelayModel(tf.Module):
    def __init__(self):
        super().__init__()
        self.net = tf.keras.Sequential([tf.keras.layers.Input((10,)),
                                        tf.keras.layers.Dense(32, activation="gelu"),
                                        tf.keras.layers.Dense(32, activation="gelu"),
                                        tf.keras.layers.Dense(1)])
        self.row = {p: i for i, p in enumerate(PORTS)}
        self.shift = tf.Variable(tf.zeros([len(PORTS)]), name="shift")
        self.weights = self.net.trainable_variables + [self.shift]

    @tf.function
    def learn(self, x, y, port):
        with tf.GradientTape() as tape:
            guess = self.net(x) + self.shift[self.row[port]]
            loss = tf.reduce_mean(tf.square(guess - y))
        for w, g in zip(self.weights, tape.gradient(loss, self.weights)):
            w.assign_sub(0.02 * tf.convert_to_tensor(g))
        return loss


def season(model, boats):
    total = 0.0
    for port, (x, y) in boats:
        total += model.learn(x, y, port)
    return total / len(boats)


def main():
    tf.keras.utils.set_random_seed(5)
    model = DelayModel()
    boats = [(p, tuple(map(tf.constant, sailings(p)))) for p in PORTS]
    t = time.time()
    print("season loss", season(model, boats).numpy())
    print(f"{len(boats)} harbours in {time.time() - t:.2f} s")


main()
