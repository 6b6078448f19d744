"""Card fraud scorer that keeps a difficulty score per row and samples hard rows more often."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

ROWS, FEATURES, BATCH = 6000, 30, 64
STEPS, EPOCHS = 110, 4


def transactions(seed=51):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, FEATURES)).astype("float32")
    risk = x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - 0.5 * x[:, 3]
    return x, (risk > np.quantile(risk, 0.85)).astype("float32")


class DifficultyBank:
    def __init__(self, rows, decay=0.8, power=0.6):
        self.score = np.ones(rows)
        self.decay, self.power = decay, power
        self.rng = np.random.default_rng(0)

    def draw(self, count):
        p = self.score ** self.power
        return self.rng.choice(len(p), count, p=p / p.sum())

    def record(self, rows, losses):
        for row, value in zip(rows.numpy().tolist(), losses.numpy().tolist()):
            self.score[row] = self.decay * self.score[row] + (1 - self.decay) * value


class Scorer:
    def __init__(self):
        self.net = keras.Sequential([
            layers.Input((FEATURES,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(1),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def fit_rows(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.net(x, training=True)[:, 0]
            each = tf.nn.sigmoid_cross_entropy_with_logits(y, logits)
            loss = tf.reduce_mean(each)
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return each


x, y = transactions()
bank, scorer = DifficultyBank(ROWS), Scorer()

t0 = time.time()
for epoch in range(EPOCHS):
    order = bank.draw(STEPS * BATCH)
    ds = tf.data.Dataset.from_tensor_slices((order, x[order], y[order])).batch(BATCH).prefetch(2)
    for rows, xb, yb in ds:
        each = scorer.fit_rows(xb, yb)
        bank.record(rows, each)
    top = np.argsort(bank.score)[-3:]
    print("epoch %d  mean difficulty %.4f  hardest %s" % (epoch, bank.score.mean(), top.tolist()))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
