"""Predict the outcome of chess games from sampled positions."""
import gc
import random
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

PIECES = ".PNBRQKpnbrqk"


class Game:
    def __init__(self, rnd, plies):
        self.result = rnd.choice((0, 1, 2))
        self.moves = [[rnd.randrange(64), rnd.randrange(64)] for _ in range(plies)]
        self.tags = {"white": rnd.randrange(9000), "black": rnd.randrange(9000), "eco": [rnd.randrange(500)]}

    def board(self, ply):
        squares = np.zeros(64, np.int32)
        squares[:16], squares[48:] = 1 + np.arange(16) % 6, 7 + np.arange(16) % 6
        for a, b in self.moves[:ply]:
            squares[b], squares[a] = squares[a], 0
        squares[0] = 1 + self.result
        return squares


class Library:
    def __init__(self, games=1800, seed=0):
        rnd = random.Random(seed)
        self.rnd = rnd
        self.games = [Game(rnd, 60) for _ in range(games)]

    def sample(self, n):
        chosen = self.rnd.choices(self.games, k=n)
        boards = np.stack([g.board(self.rnd.randrange(8, 24)) for g in chosen])
        return boards, np.array([g.result for g in chosen], np.int32)


def evaluator():
    squares = tf.keras.Input((64,), dtype="int32")
    x = layers.Embedding(len(PIECES), 16)(squares)
    x = layers.Reshape((8, 8, 16))(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    for _ in range(3):
        y = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
        x = layers.Add()([x, y])
    x = layers.Flatten()(x)
    return tf.keras.Model(squares, layers.Dense(3)(layers.Dense(64, activation="relu")(x)))


def train(steps=80, batch=96):
    library = Library()
    model = evaluator()
    optimizer = tf.keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                                      model.trainable_variables))
        return loss

    start = time.perf_counter()
    for i in range(steps):
        x, y = library.sample(batch)
        loss = step(x, y)
        del x, y
        gc.collect()
        if (i + 1) % 20 == 0:
            print(f"step {i + 1}: loss {float(loss):.4f}")
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", time.perf_counter() - start)


if __name__ == "__main__":
    train()
