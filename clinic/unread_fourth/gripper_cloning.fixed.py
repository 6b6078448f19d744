"""Behaviour cloning of a two-finger gripper from wrist-camera demonstrations."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


class Demonstrations:
    normalisers = {
        "rgb": lambda a: a,
        "proprio": lambda a: ((a - a.mean(0)) / (a.std(0) + 1e-6)).astype(np.float32),
        "action": lambda a: np.clip(a, -1.0, 1.0).astype(np.float32),
    }

    def __init__(self, episodes, length, side, seed):
        rng = np.random.default_rng(seed)
        n = episodes * length
        self.raw = {
            "rgb": rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8),
            "proprio": rng.normal(size=(n, 14)),
            "action": rng.normal(0, 0.4, (n, 7)),
        }
        self.order = rng.permutation(n)

    def __getitem__(self, key):
        return self.normalisers[key](self.raw[key][self.order])

    def as_dataset(self, batch, training):
        obs = {k: self[k] for k in ("rgb", "proprio")}
        ds = tf.data.Dataset.from_tensor_slices((obs, self["action"]))
        if training:
            ds = ds.shuffle(1024, reshuffle_each_iteration=True)
        return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def visual_encoder(x):
    for filters, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        x = layers.Conv2D(filters, kernel, strides=stride, activation="relu")(x)
    return layers.Dense(256, activation="relu")(layers.Flatten()(x))


def build_policy(side):
    rgb = keras.Input((side, side, 3), dtype="uint8", name="rgb")
    proprio = keras.Input((14,), name="proprio")
    x = visual_encoder(layers.Rescaling(1.0 / 127.5, offset=-1.0)(rgb))
    h = layers.Concatenate()([x, layers.Dense(64, activation="relu")(proprio)])
    for _ in range(2):
        h = layers.Dense(256, activation="relu")(h)
    return keras.Model({"rgb": rgb, "proprio": proprio}, layers.Dense(7, activation="tanh")(h))


class BCTrainer:
    def __init__(self, opts):
        self.opts = opts
        self.policy = build_policy(opts.side)
        self.optimizer = keras.optimizers.Adam(opts.lr)
        self.loss_fn = keras.losses.Huber()
        self.train_loss = keras.metrics.Mean()
        self.valid_mae = keras.metrics.MeanAbsoluteError()

    @tf.function
    def train_step(self, obs, action):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(action, self.policy(obs, training=True))
        v = self.policy.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, v), v))
        self.train_loss.update_state(loss)

    @tf.function
    def valid_step(self, obs, action):
        self.valid_mae.update_state(action, self.policy(obs, training=False))

    def run(self, train, valid):
        best = np.inf
        for epoch in range(1, self.opts.epochs + 1):
            for obs, action in train:
                self.train_step(obs, action)
            for obs, action in valid:
                self.valid_step(obs, action)
            mae = float(self.valid_mae.result())
            print(f"epoch {epoch:3d} huber {float(self.train_loss.result()):.4f} mae {mae:.4f}")
            if mae < best:
                best = mae
                self.policy.save_weights("policy.weights.h5")
            self.train_loss.reset_state()
            self.valid_mae.reset_state()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=80)
    ap.add_argument("--length", type=int, default=150)
    ap.add_argument("--side", type=int, default=100)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=50)
    ap.add_argument("--lr", type=float, default=3e-4)
    opts = ap.parse_args()
    train = Demonstrations(opts.episodes, opts.length, opts.side, seed=0)
    valid = Demonstrations(opts.episodes // 10, opts.length, opts.side, seed=1)
    BCTrainer(opts).run(train.as_dataset(opts.batch, True), valid.as_dataset(opts.batch, False))


if __name__ == "__main__":
    main()
