import collections
import time

import keras
import numpy as np


class LossTrail(keras.callbacks.Callback):
    """Smoothed loss of each batch, and a stop if it runs away."""

    def __init__(self, keep=50):
        super().__init__()
        self.recent = collections.deque(maxlen=keep)
        self.trail = []

    def on_train_batch_end(self, batch, logs=None):
        value = float(logs["loss"])
        self.recent.append(value)
        self.trail.append(sum(self.recent) / len(self.recent))
        if not np.isfinite(value):
            self.model.stop_training = True


class Attention(keras.layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.mha = keras.layers.MultiHeadAttention(heads, width // heads)
        self.n1 = keras.layers.LayerNormalization()
        self.n2 = keras.layers.LayerNormalization()
        self.up = keras.layers.Dense(4 * width, activation="gelu")
        self.down = keras.layers.Dense(width)

    def call(self, x):
        x = x + self.mha(self.n1(x), self.n1(x))
        return x + self.down(self.up(self.n2(x)))


keras.utils.set_random_seed(64)
rng = np.random.default_rng(64)
moves = rng.integers(0, 200, (2400, 48))
clock = (moves[:, -4:].mean(1) / 100).astype("float32")

inp = keras.Input((48,), dtype="int32")
x = keras.layers.Embedding(200, 96)(inp)
x = Attention(96, 4)(x)
x = Attention(96, 4)(x)
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(inp, keras.layers.Dense(1)(x))
model.compile("adam", "mae")
trail = LossTrail()
t = time.time()
model.fit(moves, clock, batch_size=40, epochs=1, verbose=2, callbacks=[trail])
print("end of trail", trail.trail[-1], "after", round(time.time() - t, 1), "s")
