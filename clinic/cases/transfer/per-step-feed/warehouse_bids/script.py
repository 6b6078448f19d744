"""Learn to rank bids for warehouse slots; bids come in as Python dictionaries."""
import random

import keras
import tensorflow as tf

keras.utils.set_random_seed(17)
FEATURES = 200


class BidBook:
    def __init__(self, size):
        rnd = random.Random(17)
        self.rows = [[rnd.random() for _ in range(FEATURES)] for _ in range(size)]
        self.price = [sum(r[:5]) for r in self.rows]
        self.rnd = rnd

    def draw(self, n):
        picks = [self.rnd.randrange(len(self.rows)) for _ in range(n)]
        return [self.rows[k] for k in picks], [self.price[k] for k in picks]


class Ranker(tf.Module):
    def __init__(self):
        super().__init__()
        self.net = keras.Sequential([
            keras.Input((FEATURES,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function(reduce_retracing=True)
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            s = self.net(x, training=True)[:, 0]
            pair = tf.nn.softplus(-(s[:, None] - s[None]) * tf.sign(y[:, None] - y[None]))
            loss = tf.reduce_mean(pair)
        v = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss


def run(steps=320, batch=512):
    book, ranker = BidBook(6000), Ranker()
    for i in range(steps):
        rows, price = book.draw(batch)
        x = tf.convert_to_tensor(rows, tf.float32)
        y = tf.convert_to_tensor(price, tf.float32)
        loss = ranker.learn(x, y)
    print("final", float(loss))


if __name__ == "__main__":
    run()
