"""Value network for king-and-pawn endgames: win / draw / loss from the board planes."""
import time
from dataclasses import dataclass
import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    train_positions: int = 4096
    holdout_positions: int = 2500
    batch: int = 64
    steps: int = 140
    check_every: int = 10
    filters: int = 64
    lr: float = 1e-3


def random_positions(n, seed):
    rng = np.random.default_rng(seed)
    boards = (rng.random((n, 8, 8, 12)) < 0.06).astype("float32")
    material = boards.sum((1, 2)) @ np.array([1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0], "float32")
    outcome = np.digitize(material, [-4.0, 4.0]).astype("int32")
    return boards, outcome


def build(cfg):
    inp = keras.Input((8, 8, 12))
    x = layers.Conv2D(cfg.filters, 3, padding="same", activation="relu")(inp)
    for _ in range(2):
        x = layers.Conv2D(cfg.filters, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(3)(x))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = build(cfg)
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        xb, yb = random_positions(cfg.train_positions, 1)
        self.train = (tf.data.Dataset.from_tensor_slices((xb, yb)).cache().shuffle(4096, seed=3).repeat()
                      .batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
        xh, yh = random_positions(cfg.holdout_positions, 2)
        self.holdout = tf.data.Dataset.from_tensor_slices((xh, yh)).batch(250).cache().prefetch(2)
        self.best, self.best_weights = 1e9, None

    @tf.function(reduce_retracing=True)
    def step(self, x, y):
        with tf.GradientTape() as tape:
            value = self.loss(y, self.model(x, training=True))
        grads = tape.gradient(value, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return value

    @tf.function(reduce_retracing=True)
    def score(self, x, y):
        logits = self.model(x, training=False)
        hits = tf.reduce_sum(tf.cast(tf.argmax(logits, -1, tf.int32) == y, tf.float32))
        return self.loss(y, logits), hits

    def check(self, n):
        losses, hits = [], 0.0
        for x, y in self.holdout:
            value, h = self.score(x, y)
            losses.append(value)
            hits += h
        now = float(tf.reduce_mean(losses))
        print(f"step {n:4d} holdout loss {now:.4f} accuracy {float(hits) / self.cfg.holdout_positions:.3f}")
        if now < self.best:
            self.best, self.best_weights = now, self.model.get_weights()

    def run(self):
        for n, (x, y) in enumerate(self.train.take(self.cfg.steps), 1):
            self.step(x, y)
            if n % self.cfg.check_every == 0:
                self.check(n)
        self.model.set_weights(self.best_weights)


cfg = Config()
trainer = Trainer(cfg)
t0 = time.perf_counter()
trainer.run()
took = time.perf_counter() - t0
print("best holdout loss", round(trainer.best, 4))
print("WORK", cfg.steps)
print("TRAIN_SECONDS %.3f" % took)
