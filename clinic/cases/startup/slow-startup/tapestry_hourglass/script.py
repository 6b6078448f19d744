"""Looms: predict the next thread colour from the last 70. A quick trial before the long run."""
import time

BEGIN = time.perf_counter()

import numpy as np
import keras

THREADS, COLOURS = 70, 20
RNN = dict(return_sequences=True, unroll=True)


def cloth(n, seed=15):
    g = np.random.default_rng(seed)
    period = g.integers(3, 12, n)
    base = (np.arange(THREADS + 1)[None] // 2 % period[:, None] + g.integers(0, 9, n)[:, None]) % COLOURS
    slip = g.random(base.shape) < 0.05
    return np.where(slip, g.integers(0, COLOURS, base.shape), base).astype("int32")


class Loom:
    def __init__(self, units=(32, 32), rnn=keras.layers.GRU):
        self.units, self.rnn = units, rnn

    def assemble(self):
        stack = [keras.Input((THREADS,), dtype="int32"), keras.layers.Embedding(COLOURS, 12)]
        stack += [self.rnn(u, **RNN) for u in self.units]
        stack.append(keras.layers.Dense(COLOURS))
        model = keras.Sequential(stack)
        model.compile(keras.optimizers.RMSprop(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model


def trial():
    c = cloth(3200)
    model = Loom().assemble()
    model.fit(c[:, :-1], c[:, 1:], batch_size=32, epochs=1, verbose=2)
    return len(c)


if __name__ == "__main__":
    n = trial()
    print("WORK", n)
    print("TRAIN_SECONDS", round(time.perf_counter() - BEGIN, 3))
