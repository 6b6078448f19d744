"""Online learner for berth occupancy: pictures come in all day, each update draws from everything seen so far."""
import time

import numpy as np
import tensorflow as tf

SIDE = 40
ARRIVE, BATCH, STEPS = 64, 64, 340


class Camera:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.hull = np.hanning(12)[:, None] * np.hanning(6)[None, :]

    def take(self, n):
        frames = self.rng.normal(0, 0.3, size=(n, SIDE, SIDE, 1)).astype(np.float32)
        ships = self.rng.integers(0, 5, size=n)
        for frame, k in zip(frames, ships):
            for _ in range(k):
                r, c = self.rng.integers(0, SIDE - 12), self.rng.integers(0, SIDE - 6)
                frame[r:r + 12, c:c + 6, 0] += self.hull
        return frames, ships.astype(np.float32)


class Memory:
    def __init__(self, capacity):
        self.frames = np.zeros((0, SIDE, SIDE, 1), np.float32)
        self.ships = np.zeros((0,), np.float32)
        self.capacity = capacity

    def add(self, frames, ships):
        self.frames = np.concatenate([self.frames, frames])[-self.capacity:]
        self.ships = np.concatenate([self.ships, ships])[-self.capacity:]

    def draw(self, n, rng):
        rows = rng.integers(0, len(self.ships), n)
        return self.frames[rows], self.ships[rows]


def counter():
    return tf.keras.Sequential([
        tf.keras.layers.Input((SIDE, SIDE, 1)),
        tf.keras.layers.Conv2D(16, 5, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(24, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1),
    ])


def main():
    tf.keras.utils.set_random_seed(20)
    camera, memory = Camera(1), Memory(capacity=30_000)
    model = counter()
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="huber")
    rng = np.random.default_rng(2)
    start = time.time()
    recent = []
    for step in range(STEPS):
        memory.add(*camera.take(ARRIVE))
        x, y = memory.draw(BATCH, rng)
        recent.append(model.train_on_batch(x, y))
        if (step + 1) % 60 == 0:
            print(f"{step + 1:4d} pictures {len(memory.ships):6d} loss {recent[-1]:.4f}")
    print("WORK", STEPS * BATCH)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))


if __name__ == "__main__":
    main()
