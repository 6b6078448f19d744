"""Monthly demand of spare parts, learned per part number, depot and machine family."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

PARTS, DEPOTS, FAMILIES = 70_000, 60, 400
BATCH, STEPS = 512, 360


class DemandModel(keras.Model):
    def __init__(self, dim=32):
        super().__init__()
        self.part = layers.Embedding(PARTS, dim, name="part")
        self.depot = layers.Embedding(DEPOTS, 8, name="depot")
        self.family = layers.Embedding(FAMILIES, 16, name="family")
        self.join = layers.Concatenate()
        self.trunk = keras.Sequential([
            layers.Dense(192, activation="relu"),
            layers.Dense(96, activation="relu"),
        ])
        self.rate = layers.Dense(1)

    def call(self, inputs):
        h = self.join([
            self.part(inputs["part"]),
            self.depot(inputs["depot"]),
            self.family(inputs["family"]),
            inputs["season"],
        ])
        return self.rate(self.trunk(h))


def orders(n, seed=21):
    rng = np.random.default_rng(seed)
    part = np.minimum(rng.zipf(1.3, n), PARTS) - 1
    part = np.where(rng.random(n) < 0.5, rng.integers(0, PARTS, n), part).astype(np.int32)
    depot = rng.integers(0, DEPOTS, n).astype(np.int32)
    month = rng.integers(0, 12, n)
    season = np.stack([np.sin(month * np.pi / 6), np.cos(month * np.pi / 6)], 1).astype(np.float32)
    demand = rng.poisson(1.0 + (part % 7) * 0.4 + season[:, 0] + 1.0).astype(np.float32)
    x = {"part": part, "depot": depot, "family": (part % FAMILIES).astype(np.int32), "season": season}
    return x, demand[:, None]


def pipeline(x, y):
    data = tf.data.Dataset.from_tensor_slices((x, y))
    return data.batch(BATCH, drop_remainder=True).cache().repeat().prefetch(2)


def main():
    keras.utils.set_random_seed(21)
    x, y = orders(BATCH * 90)
    data = pipeline(x, y)
    model = DemandModel()
    optimizer = keras.optimizers.Adam(learning_rate=2e-3)
    model.compile(optimizer=optimizer, loss=keras.losses.Poisson())
    for inputs, _ in data.take(1):
        model(inputs)
    model.summary()

    began = time.perf_counter()
    result = model.fit(data, steps_per_epoch=STEPS // 4, epochs=4, verbose=2)
    seconds = time.perf_counter() - began

    top = np.argsort(-np.linalg.norm(model.part.embeddings.numpy(), axis=1))[:5]
    print("largest parts", top, "loss", round(result.history["loss"][-1], 4))
    print("WORK", STEPS * BATCH)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
