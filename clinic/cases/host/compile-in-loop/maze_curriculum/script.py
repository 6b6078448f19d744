"""Teach a policy network ever bigger mazes, a short fit at each level."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(13)
SIDE, LEVELS, PER_LEVEL = 12, 14, 640


def mazes(level, rng):
    walls = (rng.random((PER_LEVEL, SIDE, SIDE, 1)) < 0.1 + 0.02 * level).astype("float32")
    move = np.argmin(walls[:, 5:7, 5:7, 0].reshape(-1, 4), axis=1)
    return walls, move


def policy():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 1)),
        layers.Conv2D(12, 3, activation="relu"), layers.BatchNormalization(),
        layers.Conv2D(12, 3, activation="relu"), layers.BatchNormalization(),
        layers.Flatten(), layers.Dense(32, activation="relu"), layers.Dense(4),
    ])


class Teacher:
    def __init__(self, network):
        self.network = network
        self.scores = []

    def prepare(self, rate):
        self.network.compile(
            keras.optimizers.SGD(rate, momentum=0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def lesson(self, walls, move, rate):
        self.prepare(rate)
        h = self.network.fit(walls, move, batch_size=64, epochs=1, verbose=0)
        self.scores.append(h.history["loss"][-1])


def main():
    rng = np.random.default_rng(13)
    teacher = Teacher(policy())
    for level in range(LEVELS):
        walls, move = mazes(level, rng)
        teacher.lesson(walls, move, rate=0.02 * 0.9 ** level)
    print("losses", ["%.2f" % s for s in teacher.scores[::4]])


if __name__ == "__main__":
    main()
