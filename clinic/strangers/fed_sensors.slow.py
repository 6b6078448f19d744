"""Federated averaging over ten plants that each keep their own vibration data."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

hp = {"clients": 10, "rounds": 10, "samples": 96, "features": 24, "batch": 32, "lr": 0.05}


class Client:
    def __init__(self, cid):
        rng = np.random.default_rng(100 + cid)
        self.x = rng.normal(rng.normal(0, 0.5), 1.0, (hp["samples"], hp["features"])).astype("float32")
        score = self.x[:, :4].sum(1) - self.x[:, 4:6].prod(1)
        self.y = (score > np.median(score)).astype("float32")[:, None]

    def local_training(self, model, weights):
        model.set_weights(weights)
        model.fit(self.x, self.y, batch_size=hp["batch"], epochs=1, verbose=0)
        return model.get_weights()


class Server:
    def __init__(self, clients):
        self.clients = clients
        self.model = keras.Sequential([
            layers.Input((hp["features"],)),
            layers.Dense(32, activation="relu"),
            layers.Dense(16, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ])
        self.model.compile(keras.optimizers.SGD(hp["lr"]), "binary_crossentropy", metrics=["accuracy"])
        self.weights = self.model.get_weights()

    def round(self):
        updates = [c.local_training(self.model, self.weights) for c in self.clients]
        self.weights = [np.mean(layer, axis=0) for layer in zip(*updates)]

    def accuracy(self):
        self.model.set_weights(self.weights)
        x = np.concatenate([c.x for c in self.clients])
        y = np.concatenate([c.y for c in self.clients])
        p = self.model(x, training=False).numpy()
        return float(((p > 0.5) == (y > 0.5)).mean())


def main():
    keras.utils.set_random_seed(3)
    server = Server([Client(i) for i in range(hp["clients"])])
    t0 = time.time()
    for r in range(hp["rounds"]):
        server.round()
        print("round %2d  accuracy %.3f" % (r + 1, server.accuracy()))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
