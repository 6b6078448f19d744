"""Who plays? A player is recognised from a phrase of plucked notes on a zither."""

import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

PLAYERS, NOTES, BATCH, STEPS = 10, 64, 64, 700


class Note:
    """One plucked string."""

    __slots__ = ("string", "force", "wait", "bend")

    def __init__(self, string, force, wait, bend):
        self.string, self.force, self.wait, self.bend = string, force, wait, bend

    def vector(self):
        return np.array([self.string / 32.0, self.force, self.wait, self.bend], np.float32)


class PhraseBook:
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        habits = rng.uniform(0.2, 1.0, (PLAYERS, 3))
        self.phrases, self.players = [], []
        for _ in range(count):
            player = int(rng.integers(PLAYERS))
            strings = np.clip(16 + np.cumsum(rng.integers(-3, 4, NOTES)), 0, 31)
            touch = habits[player] + rng.normal(0, 0.35, (NOTES, 3))
            self.phrases.append([Note(int(s), *map(float, t)) for s, t in zip(strings, touch)])
            self.players.append(player)
        self.order = rng.integers(count, size=(STEPS, BATCH))
        self.rows = self._rows()

    def _rows(self):
        return [[note.vector() for note in phrase] for phrase in self.phrases]

    def page(self, step):
        """The notes and the players of one step."""
        chosen = self.order[step]
        notes = tf.convert_to_tensor([self.rows[i] for i in chosen])
        return notes, tf.convert_to_tensor([self.players[i] for i in chosen])

    def __len__(self):
        return len(self.order)


class Ear(keras.Model):
    """Dilated convolutions and a pooled head."""

    def __init__(self):
        super().__init__()
        self.into = keras.layers.Dense(32)
        self.layers_ = [
            keras.layers.Conv1D(32, 3, dilation_rate=2**k, padding="causal", activation="relu") for k in range(3)
        ]
        self.norms = [keras.layers.LayerNormalization() for _ in self.layers_]
        self.head = keras.layers.Dense(PLAYERS)

    def call(self, notes):
        x = self.into(notes)
        for layer, norm in zip(self.layers_, self.norms):
            x = norm(x + layer(x))
        return self.head(tf.reduce_mean(x, axis=1))


class Lesson:
    def __init__(self, ear):
        self.ear = ear
        self.optimizer = keras.optimizers.Adam(2e-3)
        self.criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.hits = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def _learn(self, notes, players):
        with tf.GradientTape() as tape:
            scores = self.ear(notes)
            loss = self.criterion(players, scores)
        grads = tape.gradient(loss, self.ear.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.ear.trainable_variables))
        self.hits.update_state(players, scores)
        return loss

    def attend(self, book):
        marks = []
        for step in range(len(book)):
            loss = self._learn(*book.page(step))
            if step % 175 == 174:
                marks.append((step, time.perf_counter()))
                print(f"{step + 1:4d} loss {float(loss):.4f} accuracy {float(self.hits.result()):.3f}")
                self.hits.reset_state()
        (first, t0), (last, t1) = marks[0], marks[-1]
        return (t1 - t0) / (last - first)


if __name__ == "__main__":
    keras.utils.set_random_seed(21)
    book = PhraseBook(1500, seed=21)
    began = time.perf_counter()
    pace = Lesson(Ear()).attend(book)
    print(f"trained in {time.perf_counter() - began:.2f} s, {pace * 1e3:.1f} ms a step")
