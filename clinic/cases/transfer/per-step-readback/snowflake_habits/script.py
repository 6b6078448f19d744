"""Names the habit of a snow crystal (plate, dendrite, needle, ...) and remembers which ones stay hard.

The ledger of hardness is printed at the end, so that a person can look at the worst crystals.
"""

import time
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

HABITS = ("plate", "dendrite", "column", "needle", "stellar", "graupel")
RADII, ANGLES = 16, 36


def crystals(count, seed=0):
    """Polar outlines with sixfold symmetry of a strength that depends on the habit."""
    rng = np.random.default_rng(seed)
    habit = rng.integers(len(HABITS), size=count)
    angle = np.linspace(0, 2 * np.pi, ANGLES, endpoint=False)
    arms = 0.15 * habit[:, None] * np.cos(6 * angle + rng.uniform(0, 6, (count, 1)))
    edge = 0.5 + 0.3 * arms + rng.normal(0, 0.12, (count, ANGLES))
    radius = np.linspace(0, 1, RADII)
    inside = 1 / (1 + np.exp(-20 * (edge[:, None, :] - radius[None, :, None])))
    return inside.astype("float32")[..., None], habit.astype("int32")


@dataclass
class HardnessLedger:
    size: int
    keep: float = 0.9
    values: np.ndarray = field(init=False)

    def __post_init__(self):
        self.values = np.full(self.size, np.log(len(HABITS)), np.float32)

    def book(self, ids, losses):
        for crystal, loss in zip(ids, losses):
            self.values[int(crystal)] = self.keep * self.values[int(crystal)] + (1 - self.keep) * float(loss)

    def worst(self, count=5):
        return np.argsort(-self.values)[:count]


def network():
    return tf.keras.Sequential(
        [
            tf.keras.Input((RADII, ANGLES, 1)),
            tf.keras.layers.Conv2D(12, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(len(HABITS)),
        ]
    )


class Course:
    def __init__(self, count, batch):
        self.count, self.batch = count, batch
        self.model = network()
        self.ledger = HardnessLedger(count)
        self.optimizer = tf.keras.optimizers.AdamW(1e-3, weight_decay=1e-4)
        self.criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def data(self):
        images, habits = crystals(self.count)
        rows = tf.data.Dataset.from_tensor_slices((np.arange(self.count, dtype="int32"), images, habits))
        return rows.cache().shuffle(self.count, seed=1).batch(self.batch, drop_remainder=True).prefetch(2)

    @tf.function(jit_compile=False)
    def step(self, images, habits):
        with tf.GradientTape() as tape:
            losses = self.criterion(habits, self.model(images, training=True))
            loss = tf.reduce_mean(losses)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, losses

    def run(self, epochs):
        data = self.data()
        for epoch in range(epochs):
            began, steps, loss = time.perf_counter(), 0, None
            for ids, images, habits in data:
                loss, losses = self.step(images, habits)
                self.ledger.book(ids, losses)
                steps += 1
            took = time.perf_counter() - began
            print(f"epoch {epoch}: loss {loss:.4f}, {took:.2f} s, {took / steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(8)
    began = time.perf_counter()
    course = Course(count=12288, batch=256)
    course.run(epochs=6)
    print("hardest crystals:", course.ledger.worst().tolist())
    print(f"all in {time.perf_counter() - began:.2f} s")
