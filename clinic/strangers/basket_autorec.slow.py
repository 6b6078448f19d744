"""Denoising autoencoder over shopping baskets (collaborative filtering)."""
from dataclasses import dataclass

import numpy as np
import keras
from keras import layers


@dataclass
class Config:
    customers: int = 12_000
    products: int = 1500
    batch: int = 128
    epochs: int = 4
    keep: float = 0.7


def purchase_history(cfg, seed=5):
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 20, cfg.customers)
    history = []
    for u in range(cfg.customers):
        n = rng.integers(30, 90)
        own = (rng.integers(0, cfg.products // 20, n) + taste[u] * (cfg.products // 20))
        other = rng.integers(0, cfg.products, n // 3)
        history.append(np.concatenate([own, other]).astype("int64"))
    return history


class Baskets(keras.utils.PyDataset):
    def __init__(self, history, cfg, **kw):
        super().__init__(**kw)
        self.history, self.cfg = history, cfg
        self.rng = np.random.default_rng(1)
        self.order = self.rng.permutation(len(history))

    def __len__(self):
        return len(self.history) // self.cfg.batch

    def on_epoch_end(self):
        self.rng.shuffle(self.order)

    def __getitem__(self, index):
        users = self.order[index * self.cfg.batch:(index + 1) * self.cfg.batch]
        noisy = np.zeros((len(users), self.cfg.products), "float32")
        target = np.zeros((len(users), self.cfg.products), "float32")
        for row, user in enumerate(users):
            for item in self.history[user]:
                target[row, item] = 1.0
                if self.rng.random() < self.cfg.keep:
                    noisy[row, item] = 1.0
        return noisy, target


def autorec(cfg):
    x = layers.Input((cfg.products,))
    h = layers.Dense(128, activation="selu")(x)
    h = layers.Dense(32, activation="selu")(h)
    h = layers.Dense(128, activation="selu")(h)
    return keras.Model(x, layers.Dense(cfg.products, activation="sigmoid")(h))


def main():
    cfg = Config()
    data = Baskets(purchase_history(cfg), cfg)
    model = autorec(cfg)
    model.compile(optimizer="adam", loss="binary_crossentropy")
    model.fit(data, epochs=cfg.epochs, verbose=2)


main()
