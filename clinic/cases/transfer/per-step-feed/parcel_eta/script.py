"""Predict how many minutes a parcel will still need from its last scans."""
import argparse
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

STOPS, FEATURES = 12, 10


@dataclass
class Parcel:
    scans: np.ndarray      # (STOPS, FEATURES)
    depot: int
    minutes: float


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    speed = rng.gamma(3.0, 0.4, size=n)
    depots = rng.integers(0, 40, size=n)
    depot_delay = rng.normal(0, 0.3, size=40)
    parcels = []
    for i in range(n):
        scans = rng.normal(0, 1, size=(STOPS, FEATURES)).astype(np.float32)
        scans[:, 0] = np.cumsum(rng.exponential(speed[i], size=STOPS)) / STOPS
        minutes = scans[-1, 0] + depot_delay[depots[i]] + 0.1 * scans[:, 1].mean()
        parcels.append(Parcel(scans, int(depots[i]), float(minutes)))
    return parcels


class EtaNet(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.depot = keras.layers.Embedding(40, 8)
        self.conv1 = keras.layers.Conv1D(width, 3, padding="causal", activation="relu")
        self.conv2 = keras.layers.Conv1D(width, 3, padding="causal", activation="relu")
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.hidden = keras.layers.Dense(width, activation="relu")
        self.out = keras.layers.Dense(1)

    def call(self, inputs):
        scans, depot = inputs
        h = self.pool(self.conv2(self.conv1(scans)))
        h = tf.concat([h, self.depot(depot)], axis=-1)
        return self.out(self.hidden(h))[:, 0]


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = keras.optimizers.Adam(lr)
        self.loss = keras.losses.Huber()

    @tf.function
    def step(self, scans, depot, minutes):
        with tf.GradientTape() as tape:
            loss = self.loss(minutes, self.model((scans, depot)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def epoch(self, parcels, batch, rng):
        order = rng.permutation(len(parcels))
        total = tf.zeros(())
        steps = len(parcels) // batch
        for s in range(steps):
            chosen = [parcels[i] for i in order[s * batch:(s + 1) * batch]]
            scans = tf.convert_to_tensor([p.scans for p in chosen], dtype=tf.float32)
            depot = tf.convert_to_tensor([p.depot for p in chosen], dtype=tf.int32)
            minutes = tf.convert_to_tensor([p.minutes for p in chosen], dtype=tf.float32)
            total += self.step(scans, depot, minutes)
        return float(total) / steps, steps * batch


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    keras.utils.set_random_seed(3)
    parcels = simulate(16384, seed=0)
    trainer = Trainer(EtaNet(96), args.lr)
    rng = np.random.default_rng(1)

    done = 0
    start = time.perf_counter()
    for epoch in range(args.epochs):
        loss, n = trainer.epoch(parcels, args.batch, rng)
        done += n
        print(f"epoch {epoch}: huber {loss:.4f}")
    seconds = time.perf_counter() - start
    print("WORK", done)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
