# Federated averaging over hospitals: arrhythmia detection from single-lead ECG windows.
# The raw recordings never leave the hospital, only weights do.
import time
from dataclasses import dataclass, field

import numpy as np
import keras
from keras import layers

WINDOW = 256
CLASSES = 4


@dataclass
class Settings:
    rounds: int = 4
    local_epochs: int = 1
    batch_size: int = 32
    lr: float = 0.05
    hospitals: tuple = ("north", "south", "coast", "river")


@dataclass
class Hospital:
    name: str
    seed: int
    n: int = 1760
    x: np.ndarray = field(default=None, repr=False)
    y: np.ndarray = field(default=None, repr=False)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.y = rng.integers(0, CLASSES, self.n)
        t = np.linspace(0, 1, WINDOW, dtype="float32")
        rate = (3 + self.y + rng.normal(0, 0.1, self.n)).astype("float32")
        wave = np.sin(2 * np.pi * rate[:, None] * t[None]) ** 15
        noise = rng.standard_normal((self.n, WINDOW), dtype="float32")
        self.x = (wave + 0.3 * noise)[..., None].astype("float32")


def ecg_model():
    return keras.Sequential([
        layers.Input((WINDOW, 1)),
        layers.Conv1D(32, 7, strides=2, padding="same", activation="relu"),
        layers.Conv1D(64, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(CLASSES, activation="softmax"),
    ])


def local_training(weights, hospital, cfg):
    local = ecg_model()
    local.compile(
        optimizer=keras.optimizers.SGD(cfg.lr),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    local.set_weights(weights)
    h = local.fit(hospital.x, hospital.y, batch_size=cfg.batch_size,
                  epochs=cfg.local_epochs, verbose=0)
    return local.get_weights(), len(hospital.x), h.history["loss"][-1]


def fed_avg(updates):
    total = sum(n for _, n, _ in updates)
    merged = []
    for layer in zip(*[w for w, _, _ in updates]):
        merged.append(sum(w * (n / total) for w, (_, n, _) in zip(layer, updates)))
    return merged


def main():
    keras.utils.set_random_seed(11)
    cfg = Settings()
    hospitals = [Hospital(name, 100 + i) for i, name in enumerate(cfg.hospitals)]
    server = ecg_model()
    samples = 0
    began = time.perf_counter()
    for r in range(cfg.rounds):
        weights = server.get_weights()
        updates = []
        for hospital in hospitals:
            updates.append(local_training(weights, hospital, cfg))
            samples += hospital.n * cfg.local_epochs
        server.set_weights(fed_avg(updates))
        print("round", r, "mean local loss %.4f" % np.mean([u[2] for u in updates]))
    took = time.perf_counter() - began
    print("WORK", samples)
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    main()
