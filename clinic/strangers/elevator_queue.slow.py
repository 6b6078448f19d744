"""How long will the lobby wait?  Calls come from the building's log row by row."""
from collections import namedtuple

import numpy as np
import tensorflow as tf
import keras

Lobby = namedtuple("Lobby", "signals wait")


def read_log(calls, width=48):
    rng = np.random.default_rng(61)
    log = []
    for _ in range(calls):
        signals = rng.normal(size=width).astype("float32")
        log.append(Lobby(signals, signals[:5].sum(keepdims=True) * 0.3))
    return log


class Dispatcher(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])

    def call(self, signals):
        return self.body(signals)


class Course:
    def __init__(self, log, batch):
        self.signals = [row.signals for row in log]
        self.waits = [row.wait for row in log]
        self.batch = batch
        self.model = Dispatcher()
        self.model(tf.zeros((1, len(self.signals[0]))))
        self.rule = keras.optimizers.Adam(1e-3)
        self.rule.build(self.model.trainable_variables)
        width = len(self.signals[0])
        self.advance = tf.function(self._advance, input_signature=[
            tf.TensorSpec((batch, width), tf.float32), tf.TensorSpec((batch, 1), tf.float32)])
        self.last = None

    def _advance(self, signals, wait):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self.model(signals) - wait))
        weights = self.model.trainable_variables
        self.rule.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def window(self, start):
        rows = slice(start, start + self.batch)
        return (tf.constant(self.signals[rows], tf.float32), tf.constant(self.waits[rows], tf.float32))

    def epoch(self):
        for start in range(0, len(self.signals) - self.batch + 1, self.batch):
            self.last = self.advance(*self.window(start))
        return self.last


if __name__ == "__main__":
    keras.utils.set_random_seed(61)
    course = Course(read_log(20_480), batch=512)
    for _ in range(45):
        final = course.epoch()
    print("mae", float(final))
