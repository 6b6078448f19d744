"""Online regression on a stream of comet photometry; inputs are standardised by what was seen so far."""
import time

import keras
import numpy as np
import tensorflow as tf


class Stream:
    """Nights of observations with a slowly drifting instrument."""

    def __init__(self, features=48, per_night=256, seed=77):
        self.rng = np.random.default_rng(seed)
        self.features, self.per_night = features, per_night
        self.scale = self.rng.uniform(0.5, 20, features)
        self.truth = self.rng.normal(size=features) / features ** 0.5

    def night(self, k):
        z = self.rng.standard_normal((self.per_night, self.features))
        mag = np.tanh(z @ self.truth) + 0.05 * self.rng.standard_normal(self.per_night)
        raw = z * self.scale + 3.0 + 0.001 * k
        return raw.astype("float32"), mag.astype("float32")[:, None]


class Standardiser:
    def __init__(self):
        self.seen = []

    def __call__(self, raw):
        self.seen.append(raw)
        everything = np.concatenate(self.seen)
        mean = everything.mean(axis=0)
        std = everything.std(axis=0)
        return (raw - mean) / (std + 1e-6)


class OnlineTrainer:
    def __init__(self, features):
        self.model = keras.Sequential([
            keras.layers.Input((features,)),
            keras.layers.Dense(256, activation="gelu"),
            keras.layers.Dense(192, activation="gelu"),
            keras.layers.Dense(1),
        ])
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)
        self.huber = keras.losses.Huber()

    @tf.function(reduce_retracing=True)
    def update(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.huber(y, self.model(x, training=True))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(g, self.model.trainable_variables))
        return loss


def run(nights=400):
    keras.utils.set_random_seed(13)
    stream, standardise = Stream(), Standardiser()
    trainer = OnlineTrainer(stream.features)
    t0 = time.monotonic()
    for k in range(nights):
        raw, mag = stream.night(k)
        x = standardise(raw).astype("float32")
        loss = trainer.update(tf.convert_to_tensor(x), tf.convert_to_tensor(mag))
        if (k + 1) % 80 == 0:
            print(f"night {k + 1}: huber {float(loss):.5f}")
    return nights, time.monotonic() - t0


if __name__ == "__main__":
    work, seconds = run()
    print("WORK", work)
    print("TRAIN_SECONDS %.3f" % seconds)
