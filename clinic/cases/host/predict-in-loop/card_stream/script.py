"""Prequential card-fraud scorer: the model is updated with every micro-batch of transactions as it comes off the queue."""
import time
from collections import deque

import numpy as np
import keras


class TransactionQueue:
    def __init__(self, features=30, seed=1):
        self.rng = np.random.default_rng(seed)
        self.w = self.rng.normal(size=features)

    def poll(self, n=48):
        x = self.rng.normal(size=(n, len(self.w))).astype("float32")
        y = ((x @ self.w) > 4.0).astype("float32")[:, None]
        return x, y


class OnlineScorer:
    """scikit-learn-like wrapper around a Keras classifier."""

    def __init__(self, features=30):
        self.net = keras.Sequential([
            keras.Input((features,)),
            keras.layers.Dense(96, activation="relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ])
        self.net.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
        self.losses = deque(maxlen=50)

    def partial_fit(self, x, y):
        loss = self.net.fit(x, y, batch_size=len(x), verbose=0).history["loss"][0]
        self.losses.append(float(loss))
        return self


def consume(queue, scorer, polls):
    began = time.perf_counter()
    for i in range(polls):
        scorer.partial_fit(*queue.poll())
        if (i + 1) % 30 == 0:
            print(f"{i + 1} polls  loss {np.mean(scorer.losses):.4f}  {time.perf_counter() - began:.1f}s")


if __name__ == "__main__":
    consume(TransactionQueue(), OnlineScorer(), polls=90)
