"""Federated averaging over simulated clinics (FedAvg, SGD clients)."""
from typing import List

import keras
import numpy as np


class Clinic:
    def __init__(self, seed: int, n: int, dim: int):
        rng = np.random.default_rng(seed)
        shift = rng.normal(scale=0.3, size=dim)
        self.x = (rng.normal(size=(n, dim)) + shift).astype("float32")
        w = np.sin(np.arange(dim))
        self.y = (self.x @ w + rng.normal(size=n) > 0).astype("float32")

    def local_update(self, template: keras.Model, weights: List[np.ndarray]):
        local = keras.models.clone_model(template)
        local.compile(keras.optimizers.SGD(0.05), "binary_crossentropy")
        local.set_weights(weights)
        h = local.fit(self.x, self.y, batch_size=64, epochs=1, shuffle=True, verbose=0)
        return local.get_weights(), h.history["loss"][-1]


def server_model(dim: int) -> keras.Model:
    return keras.Sequential([
        keras.Input((dim,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])


class Server:
    def __init__(self, clinics: List[Clinic], dim: int):
        self.clinics = clinics
        self.model = server_model(dim)

    def round(self):
        start = self.model.get_weights()
        collected, losses = [], []
        for clinic in self.clinics:
            w, loss = clinic.local_update(self.model, start)
            collected.append(w)
            losses.append(loss)
        self.model.set_weights([np.mean(ws, axis=0) for ws in zip(*collected)])
        return float(np.mean(losses))


def main():
    dim = 40
    server = Server([Clinic(s, 640, dim) for s in range(5)], dim)
    for r in range(6):
        print(f"round {r}: client loss {server.round():.4f}", flush=True)


if __name__ == "__main__":
    main()
