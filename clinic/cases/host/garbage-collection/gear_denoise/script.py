"""Denoising autoencoder for gearbox current traces (long runs on a shared box)."""
import gc
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class Housekeeper:
    """Keeps the resident set of the process flat over multi-day runs."""

    def __init__(self, every):
        self.every, self.entered = every, 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *exc):
        if self.entered % self.every == 0:
            gc.collect()
        return False


def traces(n=2560, length=256, seed=6):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, length)
    f = rng.uniform(3, 20, (n, 1))
    clean = np.sin(2 * np.pi * f * t) + 0.3 * np.sin(4 * np.pi * f * t + 1.0)
    return clean.astype("float32")


class Denoiser(keras.Model):
    def __init__(self, length):
        super().__init__()
        self.down = keras.Sequential([layers.Dense(192, activation="relu"), layers.Dense(24)])
        self.up = keras.Sequential([layers.Dense(192, activation="relu"), layers.Dense(length)])

    def call(self, x):
        return self.up(self.down(x))


def make_step(model, opt, noise):
    @tf.function
    def step(clean):
        noisy = clean + noise * tf.random.normal(tf.shape(clean))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(noisy) - clean))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    return step


def main(epochs=3, batch=64):
    x = traces()
    model = Denoiser(x.shape[1])
    model(tf.zeros((1, x.shape[1])))
    opt = keras.optimizers.Adam(1e-3)
    opt.build(model.trainable_variables)
    step = make_step(model, opt, noise=0.3)
    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(len(x)).batch(batch, drop_remainder=True).prefetch(2)
    keeper = Housekeeper(every=2)
    t0 = time.time()
    for epoch in range(epochs):
        total = tf.zeros(())
        for clean in ds:
            with keeper:
                total += step(clean)
        print("epoch %d  mse %.4f" % (epoch, float(total) / (len(x) // batch)))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
