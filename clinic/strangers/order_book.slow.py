"""Mid-price move from order book snapshots kept as Python objects."""
import gc
import random

import numpy as np
import tensorflow as tf

random.seed(53)
tf.keras.utils.set_random_seed(53)

LEVELS, BATCH = 5, 64


class Snapshot:
    def __init__(self, mid):
        self.mid = mid
        self.bids = [[mid - 0.01 * (i + 1), random.random()] for i in range(LEVELS)]
        self.asks = [[mid + 0.01 * (i + 1), random.random()] for i in range(LEVELS)]

    def vector(self):
        rows = self.bids + self.asks
        return [p - self.mid for p, _ in rows] + [q for _, q in rows]


book, mid = [], 100.0
for _ in range(16000):
    mid += random.gauss(0, 0.01)
    book.append(Snapshot(mid))

model = tf.keras.Sequential([
    tf.keras.layers.Input((4 * LEVELS,)),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(3),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def train_on(indices):
    x = np.array([book[i].vector() for i in indices], np.float32)
    move = np.array([book[i + 1].mid - book[i].mid for i in indices])
    y = np.digitize(move, [-0.005, 0.005]).astype(np.int32)
    loss = train_step(x, y)
    del x, y
    gc.collect()
    return loss


for epoch in range(2):
    losses = [train_on(random.sample(range(len(book) - 1), BATCH)) for _ in range(38)]
    print("epoch", epoch, "loss", float(tf.reduce_mean(losses)))
