"""Value network for draughts: learns the outcome from recorded positions (64-character board strings)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import random
import numpy as np
import tensorflow as tf

PIECES = ".wWbB"


class PositionFeed:
    """Endless mini-batches of (planes, outcome) from the game archive."""

    def __init__(self, boards, outcomes, batch):
        self.boards, self.outcomes, self.batch = boards, outcomes, batch
        self.rng = random.Random(11)

    def __iter__(self):
        return self

    def encode(self, board):
        planes = np.zeros((8, 8, len(PIECES)), np.float32)
        for sq, piece in enumerate(board):
            planes[sq // 8, sq % 8, PIECES.index(piece)] = 1.0
        return planes

    def __next__(self):
        picks = [self.rng.randrange(len(self.boards)) for _ in range(self.batch)]
        x = np.stack([self.encode(self.boards[i]) for i in picks])
        y = np.array([self.outcomes[i] for i in picks], np.float32)
        return x, y


def archive(n=20000):
    rng = np.random.default_rng(1)
    codes = rng.choice(5, size=(n, 64), p=[0.62, 0.15, 0.04, 0.15, 0.04])
    letters = np.array(list(PIECES))
    boards = ["".join(r) for r in letters[codes]]
    score = np.array([0, 1, 3, -1, -3])[codes].sum(1)
    return boards, np.tanh(score / 4).astype("float32")


class ValueNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.c1 = tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu")
        self.c2 = tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu")
        self.flat = tf.keras.layers.Flatten()
        self.out = tf.keras.layers.Dense(1, activation="tanh")

    def call(self, x):
        return self.out(self.flat(self.c2(self.c1(x))))[:, 0]


boards, outcomes = archive()
feed = PositionFeed(boards, outcomes, batch=256)
net = ValueNet()
opt = tf.keras.optimizers.SGD(0.02, momentum=0.9)


@tf.function(reduce_retracing=True)
def update(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - y))
    g = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


for it, (x, y) in enumerate(feed):
    mse = update(tf.constant(x), tf.constant(y))
    if it % 100 == 0:
        print(it, "mse", float(mse), flush=True)
    if it == 800:
        break
