"""Where is the next stroke of a marimba roll? Every moment sees a summary of all that was played before it."""

import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

MOMENTS, BARS, BATCH = 80, 24, 48


def rolls(count, seed=0):
    rng = np.random.default_rng(seed)
    notes = np.zeros((count, MOMENTS + 1), np.int32)
    notes[:, 0] = rng.integers(BARS, size=count)
    swing = rng.integers(1, 5, size=count)
    for t in range(1, MOMENTS + 1):
        jump = np.where(rng.random(count) < 0.1, rng.integers(-6, 7, count), swing * (-1) ** t)
        notes[:, t] = np.clip(notes[:, t - 1] + jump, 0, BARS - 1)
    return notes[:, :-1], notes[:, 1:]


class Reminiscence(keras.layers.Layer):
    """The mean and the mean square of everything heard up to each moment."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.mix = keras.layers.Dense(width, activation="gelu")

    @staticmethod
    def _so_far(x):
        moments = []
        for t in range(x.shape[1]):
            moments.append(tf.reduce_mean(x[:, : t + 1], axis=1))
        return tf.stack(moments, axis=1)

    def call(self, x):
        mean = self._so_far(x)
        power = self._so_far(tf.square(x))
        return self.mix(tf.concat([x, mean, power - tf.square(mean)], axis=-1))


class Roll(keras.Model):
    def __init__(self, width=96):
        super().__init__()
        self.bars = keras.layers.Embedding(BARS, width)
        self.recent = keras.layers.Conv1D(width, 4, padding="causal", activation="gelu")
        self.memory = Reminiscence(width)
        self.norm = keras.layers.LayerNormalization()
        self.out = keras.layers.Dense(BARS)

    def call(self, notes):
        x = self.bars(notes)
        x = x + self.recent(x)
        x = self.norm(x + self.memory(x))
        return self.out(x)


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        took = time.perf_counter() - self.began
        print(f"epoch {epoch}: {took:.2f} s, {took / self.params['steps'] * 1e3:.1f} ms a step")


def main():
    keras.utils.set_random_seed(14)
    heard, coming = rolls(BATCH * 34)
    model = Roll()
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    began = time.perf_counter()
    model.fit(heard, coming, batch_size=BATCH, epochs=3, verbose=0, callbacks=[Clock()])
    print(f"trained in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
