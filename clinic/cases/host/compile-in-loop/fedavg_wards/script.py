"""FedAvg over hospital wards with unequal data (simulation on one machine)."""
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import keras
from keras import layers

NUM_WARDS = 3
ROUNDS = 4
LOCAL_EPOCHS = 2
FEATURES = 40


def make_wards(seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(FEATURES,))
    wards = []
    for i in range(NUM_WARDS):
        n = int(rng.integers(600, 1400))
        x = rng.normal(loc=0.2 * i, size=(n, FEATURES)).astype("float32")
        p = 1 / (1 + np.exp(-(x - 0.2 * i) @ w / 3))
        wards.append((x, (rng.random(n) < p).astype("float32")))
    return wards


def build():
    inp = layers.Input((FEATURES,))
    h = layers.Dense(64, activation="relu")(inp)
    h = layers.BatchNormalization()(h)
    h = layers.Dense(64, activation="relu")(h)
    h = layers.Dropout(0.1)(h)
    out = layers.Dense(1, activation="sigmoid")(h)
    return keras.Model(inp, out)


def new_client():
    m = build()
    m.compile(optimizer=keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return m


class Server:
    def __init__(self, wards):
        self.wards = wards
        self.weights = build().get_weights()

    def local_update(self, x, y):
        client = new_client()
        client.set_weights(self.weights)
        hist = client.fit(x, y, epochs=LOCAL_EPOCHS, batch_size=32, verbose=0)
        return client.get_weights(), hist.history["loss"][-1]

    def round(self):
        total = sum(len(y) for _, y in self.wards)
        agg = [np.zeros_like(w) for w in self.weights]
        losses = []
        for x, y in self.wards:
            w, loss = self.local_update(x, y)
            losses.append(loss)
            for a, b in zip(agg, w):
                a += b * (len(y) / total)
        self.weights = agg
        return float(np.mean(losses))


def main():
    wards = make_wards()
    server = Server(wards)
    t0 = time.perf_counter()
    for r in range(ROUNDS):
        print("round", r, "mean local loss %.4f" % server.round())
    dt = time.perf_counter() - t0
    print("WORK", ROUNDS * LOCAL_EPOCHS * sum(len(y) for _, y in wards))
    print("TRAIN_SECONDS %.3f" % dt)


main()
