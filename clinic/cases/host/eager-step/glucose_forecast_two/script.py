"""Forecast blood glucose 30 minutes ahead from the last two hours of a CGM."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def simulate_patients(count, hours, seed):
    rng = np.random.default_rng(seed)
    steps = hours * 12
    t = np.arange(steps)
    traces = []
    for _ in range(count):
        base = rng.uniform(90, 150)
        daily = 25 * np.sin(2 * np.pi * (t / 288 + rng.uniform()))
        walk = np.cumsum(rng.normal(0, 2.0, steps))
        walk -= np.linspace(0, walk[-1], steps)
        traces.append(base + daily + walk)
    return np.asarray(traces, "float32") / 100.0


def windows(traces, past=24, ahead=6):
    xs, ys = [], []
    for start in range(0, traces.shape[1] - past - ahead, 5):
        xs.append(traces[:, start:start + past])
        ys.append(traces[:, start + past + ahead - 1])
    return np.concatenate(xs), np.concatenate(ys)[:, None]


class ResidualBlock(layers.Layer):
    def __init__(self, width, rate):
        super().__init__()
        self.inner = layers.Dense(width, activation="relu")
        self.outer = layers.Dense(width)
        self.norm = layers.BatchNormalization()
        self.drop = layers.Dropout(rate)

    def call(self, x, training=False):
        h = self.outer(self.drop(self.inner(x), training=training))
        return self.norm(x + h, training=training)


class GlucoseNet(keras.Model):
    def __init__(self, width=384, blocks=2):
        super().__init__()
        self.lift = layers.Dense(width, activation="relu")
        self.blocks = [ResidualBlock(width, 0.1) for _ in range(blocks)]
        self.head = layers.Dense(1)

    def call(self, x, training=False):
        h = self.lift(x)
        for block in self.blocks:
            h = block(h, training=training)
        return x[:, -1:] + self.head(h)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = keras.optimizers.Adam(lr)
        self.loss_fn = keras.losses.Huber()
        self.metric = keras.metrics.Mean()

    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            pred = self.model(x, training=True)
            loss = self.loss_fn(y, pred)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.metric.update_state(loss)

    def fit(self, dataset, epochs):
        seen = 0
        for epoch in range(epochs):
            self.metric.reset_state()
            for x, y in dataset:
                self.train_step(x, y)
                seen += 1
            print(f"epoch {epoch + 1}: huber {float(self.metric.result()):.5f}")
        return seen


if __name__ == "__main__":
    keras.utils.set_random_seed(21)
    x, y = windows(simulate_patients(count=50, hours=96, seed=2))
    data = (tf.data.Dataset.from_tensor_slices((x, y))
            .cache().shuffle(len(x)).batch(256, drop_remainder=True)
            .prefetch(2))
    trainer = Trainer(GlucoseNet())
    tic = time.time()
    steps = trainer.fit(data, epochs=3)
    toc = time.time()
    print("WORK", steps)
    print("TRAIN_SECONDS %.3f" % (toc - tic))
