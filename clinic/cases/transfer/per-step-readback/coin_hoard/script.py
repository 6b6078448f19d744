"""Sorting a coin hoard by mint: 10 mints, tiny pictures, with a running confusion matrix."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(77)
MINTS, SIDE, BATCH = 10, 20, 128


class Confusion:
    def __init__(self, classes):
        self.table = np.zeros((classes, classes), dtype=int)

    def add(self, truth, guess):
        for t, g in zip(truth, guess):
            self.table[int(t), int(g)] += 1

    def accuracy(self):
        return self.table.trace() / max(1, self.table.sum())


def hoard(n):
    rng = np.random.default_rng(77)
    stamps = rng.random((MINTS, SIDE, SIDE)).astype("float32")
    mint = rng.integers(0, MINTS, n)
    worn = rng.uniform(0.2, 1, (n, 1, 1)).astype("float32")
    return stamps[mint] * worn + 0.4 * rng.standard_normal((n, SIDE, SIDE), dtype="float32"), mint.astype("int32")


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = self.loss(y, logits)
        v = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss, tf.argmax(logits, axis=-1)

    def run(self, data, epochs):
        for e in range(epochs):
            confusion = Confusion(MINTS)
            for x, y in data:
                loss, guess = self.step(x, y)
                confusion.add(y, guess)
            print(f"epoch {e}: loss {loss.numpy():.3f}, running accuracy {confusion.accuracy():.3f}")


x, y = hoard(6400)
ds = tf.data.Dataset.from_tensor_slices((x[..., None], y)).cache().shuffle(6400, seed=3).batch(BATCH).prefetch(2)
net = tf.keras.Sequential([
    tf.keras.Input((SIDE, SIDE, 1)),
    tf.keras.layers.Conv2D(12, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(24, 3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(MINTS),
])
t = time.time()
Trainer(net, tf.keras.optimizers.Adam(1e-3)).run(ds, 5)
print("WORK", 5 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - t))
