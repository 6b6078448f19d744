"""Next note of a four-part choir, with a slowly moving average of the weights for the concert."""
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(71)
NOTES, BAR = 96, 16


class ConcertWeights(keras.callbacks.Callback):
    """Keeps the average singer."""

    def __init__(self, decay=0.99):
        super().__init__()
        self.decay, self.mean = decay, None

    def on_train_batch_end(self, batch, logs=None):
        now = self.model.get_weights()
        if self.mean is None:
            self.mean = [w.astype("float64") for w in now]
        self.mean = [self.decay * m + (1 - self.decay) * w for m, w in zip(self.mean, now)]

    def on_train_end(self, logs=None):
        print("average weight", float(np.mean([np.mean(np.abs(m)) for m in self.mean])))


def hymns(n=1600):
    g = np.random.default_rng(71)
    steps = g.choice([-2, -1, 0, 1, 2], (n, BAR + 1))
    line = (g.integers(20, 70, (n, 1)) + steps.cumsum(1)) % NOTES
    return line[:, :-1], line[:, -1]


notes = keras.Input((BAR,), dtype="int32")
h = keras.layers.Embedding(NOTES, 64)(notes)
h = keras.layers.Flatten()(h)
h = keras.layers.Dense(1024, activation="relu")(h)
h = keras.layers.Dense(1024, activation="relu")(h)
h = keras.layers.Dense(512, activation="relu")(h)
model = keras.Model(notes, keras.layers.Dense(NOTES)(h))
model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = hymns()
t = time.time()
model.fit(x, y, batch_size=16, epochs=3, verbose=2, callbacks=[ConcertWeights()])
print(f"rehearsed for {time.time() - t:.2f} s")
