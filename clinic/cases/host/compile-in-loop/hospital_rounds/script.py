"""Federated averaging of a readmission model: every hospital trains on its own rows, the server averages the weights."""
import dataclasses
import time

import keras
import numpy as np


@dataclasses.dataclass
class Config:
    hospitals: int = 4
    rows: int = 768
    features: int = 40
    rounds: int = 4
    batch: int = 64
    lr: float = 0.05


def hospital_rows(cfg, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(loc=rng.normal(0, 0.3, cfg.features), size=(cfg.rows, cfg.features)).astype("float32")
    w = np.sin(np.arange(cfg.features))
    y = (x @ w + rng.normal(0, 1, cfg.rows) > 0).astype("float32")
    return x, y


def readmission_net(cfg):
    inp = keras.Input((cfg.features,))
    h = inp
    for units in (64, 64, 32):
        h = keras.layers.Dense(units)(h)
        h = keras.layers.LayerNormalization()(h)
        h = keras.layers.Activation("relu")(h)
    return keras.Model(inp, keras.layers.Dense(1, activation="sigmoid")(h))


class Server:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = readmission_net(cfg)
        self.sites = [hospital_rows(cfg, s) for s in range(cfg.hospitals)]

    def local_update(self, x, y):
        local = keras.models.clone_model(self.model)
        local.compile(keras.optimizers.SGD(self.cfg.lr), "binary_crossentropy")
        local.set_weights(self.model.get_weights())
        h = local.fit(x, y, batch_size=self.cfg.batch, epochs=1, verbose=0)
        return local.get_weights(), h.history["loss"][-1]

    def round(self):
        updates, losses = zip(*(self.local_update(x, y) for x, y in self.sites))
        self.model.set_weights([np.mean(ws, axis=0) for ws in zip(*updates)])
        return float(np.mean(losses))


if __name__ == "__main__":
    server = Server(Config())
    t0 = time.perf_counter()
    for r in range(server.cfg.rounds):
        print(f"round {r}: mean local loss {server.round():.4f} after {time.perf_counter() - t0:.1f}s")
