# Supervised policy network for 9x9 Go: predict the next move from random playouts.
import random
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE = 9
random.seed(6)
keras.utils.set_random_seed(6)


def playout(length):
    """A game of random legal-looking moves; yields (planes, next move)."""
    free = list(range(SIDE * SIDE))
    random.shuffle(free)
    board = np.zeros((2, SIDE * SIDE), "uint8")
    for ply in range(length):
        move = min(free[:4], key=lambda m: abs(m % SIDE - 4) + abs(m // SIDE - 4))
        free.remove(move)
        yield np.stack([board[ply % 2], board[1 - ply % 2], board.sum(0) == 0], -1), move
        board[ply % 2, move] = 1


def collect(games):
    planes, moves = [], []
    for _ in range(games):
        for p, m in playout(random.randint(20, 50)):
            planes.append(p)
            moves.append(m)
    planes = np.array(planes, "uint8").reshape(-1, SIDE, SIDE, 3)
    return planes, np.array(moves, "int32")


class Residual(layers.Layer):
    def __init__(self, filters):
        super().__init__()
        self.a = layers.Conv2D(filters, 3, padding="same", activation="relu")
        self.b = layers.Conv2D(filters, 3, padding="same")

    def call(self, x):
        return keras.ops.relu(x + self.b(self.a(x)))


def policy(filters=64, blocks=3):
    inp = keras.Input((SIDE, SIDE, 3))
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(inp)
    for _ in range(blocks):
        x = Residual(filters)(x)
    x = layers.Conv2D(1, 1)(x)
    return keras.Model(inp, layers.Flatten()(x))


net = policy()
opt = keras.optimizers.Adam(1e-3)
opt.build(net.trainable_variables)
xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
hits = keras.metrics.SparseTopKCategoricalAccuracy(5)


@tf.function
def train_step(planes, move):
    x = tf.cast(planes, tf.float32)
    with tf.GradientTape() as tape:
        logits = net(x, training=True)
        loss = xent(move, logits)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    hits.update_state(move, logits)
    return loss


planes, moves = collect(110)
planes, moves = planes[:3680], moves[:3680]
print(len(planes), "positions")
data = (tf.data.Dataset.from_tensor_slices((planes, moves))
        .shuffle(len(planes)).batch(128).prefetch(2))

positions, step = 0, 0
clock = time.perf_counter()
for epoch in range(2):
    hits.reset_state()
    for x, y in data:
        loss = train_step(x, y)
        step += 1
        positions += len(x)
        if step % 10 == 0:
            print(f"epoch {epoch} step {step} loss {float(loss):.3f} top5 {float(hits.result()):.3f}")
seconds = time.perf_counter() - clock
print("WORK", positions)
print(f"TRAIN_SECONDS {seconds:.3f}")
