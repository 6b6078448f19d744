"""An agent learns its way out of hedge labyrinths: Q-learning with prioritised replay, many labyrinths side by side."""

import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

SIDE, SIGHT, MOVES = 9, 5, np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


@dataclass
class Memory:
    before: np.ndarray
    move: int
    reward: float
    after: np.ndarray
    over: float
    priority: float


class Labyrinths:
    """`count` mazes; the way out is in the far corner."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.hedge = self.rng.random((count, SIDE, SIDE)) < 0.22
        self.hedge[:, 0, 0] = self.hedge[:, -1, -1] = False
        self.at = np.zeros((count, 2), int)
        self.rows = np.arange(count)

    def view(self):
        padded = np.pad(self.hedge, ((0, 0), (2, 2), (2, 2)), constant_values=True)
        steps = np.arange(SIGHT)
        near = padded[
            self.rows[:, None, None], self.at[:, :1, None] + steps[None, :, None], self.at[:, 1:, None] + steps[None, None]
        ]
        return np.concatenate([near.reshape(len(self.at), -1), self.at / SIDE], -1).astype("float32")

    def move(self, choice):
        to = np.clip(self.at + MOVES[choice], 0, SIDE - 1)
        blocked = self.hedge[self.rows, to[:, 0], to[:, 1]]
        self.at = np.where(blocked[:, None], self.at, to)
        out = (self.at == SIDE - 1).all(-1)
        reward = np.where(out, 1.0, -0.01 - 0.02 * blocked)
        after = self.view()
        self.at[out] = 0
        return reward, after, out.astype(float)


class Replay:
    def __init__(self, rng):
        self.rng = rng
        self.memories = []

    def remember(self, *columns):
        top = max((m.priority for m in self.memories), default=1.0)
        self.memories.extend(Memory(*row, top) for row in zip(*columns))

    def draw(self, count):
        chance = np.array([m.priority for m in self.memories])
        self.last = self.rng.choice(len(chance), count, p=chance / chance.sum())
        found = [self.memories[i] for i in self.last]
        names = ("before", "move", "reward", "after", "over")
        return [np.array([getattr(m, n) for m in found], "int32" if n == "move" else "float32") for n in names]

    def rate(self, errors):
        for i, error in zip(self.last.tolist(), np.abs(errors).tolist()):
            self.memories[i].priority = (error + 0.01) ** 0.6


def brain():
    layers = [tf.keras.layers.Dense(384, activation="relu") for _ in range(2)]
    return tf.keras.Sequential([tf.keras.Input((SIGHT**2 + 2,)), *layers, tf.keras.layers.Dense(4)])


class Walker:
    def __init__(self, seed):
        self.q, self.slow_q = brain(), brain()
        self.optimizer = tf.keras.optimizers.Adam(5e-4)
        self.rng = np.random.default_rng(seed)

    @tf.function(reduce_retracing=True)
    def look(self, view):
        return tf.argmax(self.q(view), -1)

    @tf.function
    def learn(self, before, move, reward, after, over):
        goal = reward + 0.95 * (1 - over) * tf.reduce_max(self.slow_q(after), -1)
        with tf.GradientTape() as tape:
            error = goal - tf.gather(self.q(before), move, batch_dims=1)
            loss = tf.reduce_mean(tf.square(error))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.q.trainable_variables), self.q.trainable_variables))
        return error


def main(steps=1500, count=64):
    tf.keras.utils.set_random_seed(1)
    world, walker = Labyrinths(count, 1), Walker(2)
    replay, view, began = Replay(np.random.default_rng(3)), world.view(), time.perf_counter()
    mark = began
    for step in range(steps):
        choice = walker.look(tf.constant(view)).numpy()
        stray = walker.rng.random(count) < 0.3
        choice = np.where(stray, walker.rng.integers(4, size=count), choice)
        reward, after, over = world.move(choice)
        replay.remember(view, choice, reward, after, over)
        view = world.view()
        replay.rate(walker.learn(*map(tf.constant, replay.draw(128))).numpy())
        if step % 250 == 249:
            walker.slow_q.set_weights(walker.q.get_weights())
            now = time.perf_counter()
            print(f"step {step + 1}: reward {reward.mean():.4f}, {(now - mark) / 250 * 1e3:.1f} ms a step")
            mark = now
    print(f"trained in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
