"""Online digital twin of a drying kiln: learns while the plant's telemetry comes in, with rehearsal of older windows."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

TICKS, SIGNALS = 64, 12
NEW, REHEARSED = 24, 48


class Plant:
    """Telemetry of a first-order process with drifting loads; yields windows and the next moisture reading."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.gain = self.rng.uniform(0.2, 1.5, SIGNALS)
        self.offset = self.rng.uniform(20, 90, SIGNALS)
        self.clock = 0

    def read(self, n):
        phase = self.rng.uniform(0, 6.28, (n, 1, 1)) + self.clock * 0.01
        tick = np.arange(TICKS + 1)[None, :, None] * 0.12
        load = np.sin(phase + tick * self.gain) + 0.3 * np.cos(2.3 * phase + tick)
        x = self.offset + 8 * load + self.rng.normal(0, 0.8, load.shape)
        self.clock += 1
        target = load[:, -1, :4].mean(axis=1, keepdims=True)
        return x[:, :-1].astype("float32"), target.astype("float32")


class Archive:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.x = np.empty((0, TICKS, SIGNALS), "float32")
        self.y = np.empty((0, 1), "float32")

    def add(self, x, y):
        self.x = np.concatenate([self.x, x])
        self.y = np.concatenate([self.y, y])

    def scale(self):
        return self.x.mean(axis=(0, 1)), self.x.std(axis=(0, 1)) + 1e-3

    def rehearse(self, n):
        pick = self.rng.integers(0, len(self.x), n)
        return self.x[pick], self.y[pick]


class Twin(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [layers.Conv1D(f, 5, padding="causal", dilation_rate=d, activation="relu")
                     for f, d in ((32, 1), (64, 2))]
        self.pool = layers.GlobalAveragePooling1D()
        self.head = keras.Sequential([layers.Dense(48, activation="relu"), layers.Dense(1)])

    def call(self, x):
        for conv in self.body:
            x = conv(x)
        return self.head(tf.concat([self.pool(x), x[:, -1]], axis=-1))


class OnlineTrainer:
    def __init__(self, lr=1e-3):
        self.model = Twin()
        self.model(tf.zeros((1, TICKS, SIGNALS)))
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.model.trainable_variables)

    @tf.function
    def update(self, x, y, mean, std):
        with tf.GradientTape() as tape:
            err = self.model((x - mean) / std) - y
            loss = tf.reduce_mean(tf.square(err))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


def run(rounds=300):
    keras.utils.set_random_seed(0)
    plant, archive, trainer = Plant(1), Archive(2), OnlineTrainer()
    smooth = None
    began = time.perf_counter()
    for k in range(rounds):
        x_new, y_new = plant.read(NEW)
        archive.add(x_new, y_new)
        x_old, y_old = archive.rehearse(REHEARSED)
        mean, std = archive.scale()
        loss = trainer.update(
            tf.constant(np.concatenate([x_new, x_old])),
            tf.constant(np.concatenate([y_new, y_old])),
            tf.constant(mean, tf.float32),
            tf.constant(std, tf.float32),
        )
        smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
        if k % 60 == 59:
            print(f"round {k + 1}: smoothed loss {float(smooth):.5f}")
    return time.perf_counter() - began, rounds * (NEW + REHEARSED)


if __name__ == "__main__":
    seconds, samples = run()
    print("WORK", samples)
    print("TRAIN_SECONDS %.3f" % seconds)
