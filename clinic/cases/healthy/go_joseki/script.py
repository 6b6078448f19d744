"""Next-move prediction for go corner sequences written as coordinate strings."""
import argparse
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

LETTERS = "abcdefghi"


class Corner:
    """A 9x9 corner onto which a game record is replayed."""

    def __init__(self):
        self.planes = np.zeros((9, 9, 3), "float32")
        self.planes[..., 2] = 1.0

    def play(self, move, colour):
        r, c = LETTERS.index(move[0]), LETTERS.index(move[1])
        self.planes[r, c, colour] = 1.0
        self.planes[r, c, 2] = 0.0


def records(n, rng):
    for _ in range(n):
        points = rng.permutation(81)[:13]
        yield [LETTERS[p // 9] + LETTERS[p % 9] for p in points]


def dataset(n, batch, seed):
    rng = np.random.default_rng(seed)
    boards, answers = [], []
    for record in records(n, rng):
        corner = Corner()
        for i, move in enumerate(record[:-1]):
            corner.play(move, i % 2)
        boards.append(corner.planes)
        last = record[-1]
        answers.append(LETTERS.index(last[0]) * 9 + LETTERS.index(last[1]))
    ds = tf.data.Dataset.from_tensor_slices((np.stack(boards), np.array(answers, "int32")))
    return ds.cache().shuffle(n, seed=seed).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def policy(width, depth):
    board = keras.Input((9, 9, 3))
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(board)
    for _ in range(depth):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(layers.Conv2D(1, 1)(x))
    return keras.Model(board, x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--games", type=int, default=2560)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--width", type=int, default=96)
    a = p.parse_args([])
    train = dataset(a.games, a.batch, 1)
    check = dataset(128, a.batch, 2)
    model = policy(a.width, 3)
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), metrics=["accuracy"],
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    t0 = time.perf_counter()
    for phase, rate in enumerate((0.05, 0.01)):
        model.optimizer.learning_rate.assign(rate)
        model.fit(train, validation_data=check, initial_epoch=phase, epochs=phase + 1, verbose=2)
    seconds = time.perf_counter() - t0
    print("WORK", 2 * a.games)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
