import json
import os
import random
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

PITCHES = 48
SETTINGS = {
    "songs": 100,
    "frames": 320,
    "window": 72,
    "batch": 48,
    "steps": 220,
    "filters": 144,
    "learning_rate": 2e-3,
}


def compose(folder, settings, seed=3):
    rng = np.random.default_rng(seed)
    path = os.path.join(folder, "rolls.jsonl")
    with open(path, "w") as f:
        for n in range(settings["songs"]):
            chord = rng.integers(0, PITCHES - 8, settings["frames"] // 8)
            roll = np.zeros((settings["frames"], PITCHES))
            for interval in (0, 4, 7):
                roll[np.arange(settings["frames"]), np.repeat(chord + interval, 8)] = 1.0
            roll *= rng.uniform(0.3, 1.0, (settings["frames"], 1))
            f.write(json.dumps({"title": f"etude {n}", "roll": roll.round(2).tolist()}) + "\n")
    return path


class SongBook:
    """Piano rolls of a corpus; hands out random windows and their continuation."""

    def __init__(self, path, window, seed=0):
        self.window = window
        self.random = random.Random(seed)
        self.rolls = []
        with open(path) as f:
            for line in f:
                self.rolls.append(json.loads(line)["roll"])

    def _cuts(self, n):
        for _ in range(n):
            roll = self.random.choice(self.rolls)
            at = self.random.randrange(len(roll) - self.window - 1)
            yield roll, at

    def draw(self, n):
        past, future = [], []
        for roll, at in self._cuts(n):
            past.append(roll[at:at + self.window])
            future.append(roll[at + 1:at + 1 + self.window])
        return past, future


def causal_net(filters):
    notes = layers.Input((None, PITCHES))
    h = layers.Conv1D(filters, 3, padding="causal", activation="relu")(notes)
    h = layers.Conv1D(filters, 3, padding="causal", dilation_rate=1, activation="relu")(h)
    return keras.Model(notes, layers.Dense(PITCHES)(h))


class Composer:
    def __init__(self, book, settings):
        self.book, self.settings = book, settings
        self.net = causal_net(settings["filters"])
        self.optimizer = keras.optimizers.Adam(settings["learning_rate"])
        self.optimizer.build(self.net.trainable_variables)

    @tf.function
    def update(self, past, future):
        with tf.GradientTape() as tape:
            logits = self.net(past, training=True)
            loss = tf.reduce_mean(tf.square(tf.nn.relu(logits) - future))
        variables = self.net.trainable_variables
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return loss

    def to_tensors(self, past, future):
        return (tf.convert_to_tensor(past, dtype=tf.float32),
                tf.convert_to_tensor(future, dtype=tf.float32))

    def practise(self):
        running = tf.zeros(())
        for step in range(1, self.settings["steps"] + 1):
            batch = self.to_tensors(*self.book.draw(self.settings["batch"]))
            running = 0.95 * running + 0.05 * self.update(*batch)
            if step % 55 == 0:
                print(f"step {step:4d}  loss {float(running):.4f}")


def main():
    keras.utils.set_random_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        book = SongBook(compose(folder, SETTINGS), SETTINGS["window"])
    composer = Composer(book, SETTINGS)
    t0 = time.perf_counter()
    composer.practise()
    t1 = time.perf_counter()
    print("WORK", SETTINGS["steps"] * SETTINGS["batch"])
    print(f"TRAIN_SECONDS {t1 - t0:.3f}")


if __name__ == "__main__":
    main()
