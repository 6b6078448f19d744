"""Customer churn from call records, with running calibration numbers."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def call_records(n=30000, d=64):
    rng = np.random.default_rng(14)
    x = rng.standard_normal((n, d), dtype=np.float32)
    y = (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + rng.normal(0, 0.5, n) > 0.8).astype("float32")
    return x, y


class ChurnTrainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = keras.optimizers.Adam(lr)
        self.bce = keras.losses.BinaryCrossentropy()
        self.scores = np.zeros(0, "float32")
        self.truth = np.zeros(0, "float32")
        self.step = tf.function(self._step)

    def _step(self, x, y):
        with tf.GradientTape() as tape:
            p = self.model(x, training=True)[:, 0]
            loss = self.bce(y, p)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, p

    def calibration(self, bins=10):
        idx = np.digitize(self.scores, np.linspace(0, 1, bins + 1)[1:-1])
        hits = np.bincount(idx, weights=self.truth, minlength=bins)
        mass = np.bincount(idx, weights=self.scores, minlength=bins)
        return np.abs(hits - mass).sum() / len(self.scores)

    def epoch(self, ds):
        for x, y in ds:
            loss, p = self.step(x, y)
            self.scores = np.concatenate([self.scores, p.numpy()])
            self.truth = np.concatenate([self.truth, y.numpy()])
            self.ece = self.calibration()
        return float(loss)


def churn_model(d):
    return keras.Sequential([
        layers.Input((d,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


def main():
    keras.utils.set_random_seed(14)
    x, y = call_records()
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8000).batch(100).prefetch(2)
    trainer = ChurnTrainer(churn_model(x.shape[1]))
    epochs = 4
    tick = time.time()
    for e in range(epochs):
        loss = trainer.epoch(ds)
        print(f"epoch {e}: loss {loss:.4f} calibration error {trainer.ece:.4f}")
    tock = time.time()
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % (tock - tick))


main()
