"""Photometric-quality spectra -> redshift; clean spectra first, then with a part of the range masked."""
import time

import numpy as np
import tensorflow as tf
import keras

BINS = 2048
LINES = {"OII": 3727.0, "Hbeta": 4861.0, "OIII": 5007.0, "Halpha": 6563.0}


def spectrum(z, wave, rng):
    flux = (wave / 6000.0) ** rng.uniform(-1.5, 0.5)
    for rest in LINES.values():
        centre = rest * (1 + z)
        flux = flux + rng.uniform(0.5, 3.0) * np.exp(-0.5 * ((wave - centre) / 12.0) ** 2)
    return flux


def catalogue(n, seed):
    rng = np.random.default_rng(seed)
    wave = np.linspace(3800, 9800, BINS, dtype="float32")
    z = rng.uniform(0.0, 0.5, n).astype("float32")
    flux = np.empty((n, BINS), "float32")
    for i in range(n):
        flux[i] = spectrum(z[i], wave, rng)
    flux += 0.1 * rng.standard_normal(flux.shape, dtype="float32")
    return flux / flux.mean(axis=1, keepdims=True), z[:, None]


class RedshiftTrainer:
    def __init__(self, width=1024):
        self.net = keras.Sequential([
            keras.Input((BINS,)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(1),
        ])
        self.opt = keras.optimizers.SGD(0.01)

    @tf.function
    def step(self, flux, z, masked):
        if masked:
            keep = tf.concat([tf.ones([BINS - masked]), tf.zeros([masked])], 0)
            flux = flux * tf.roll(keep, tf.random.uniform([], 0, BINS, tf.int32), 0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self.net(flux, training=True) - z))
        variables = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def stage(self, ds, epochs, masked):
        for epoch in range(epochs):
            total, steps = tf.constant(0.0), 0
            for flux, z in ds:
                total += self.step(flux, z, masked)
                steps += 1
            print(f"masked {masked:4d} epoch {epoch + 1}: mean |dz| {total.numpy() / steps:.4f}", flush=True)
        return epochs * steps


def main():
    keras.utils.set_random_seed(2)
    batch = 1536
    flux, z = catalogue(4 * batch, seed=2)
    ds = (tf.data.Dataset.from_tensor_slices((flux, z))
          .shuffle(len(flux)).batch(batch, drop_remainder=True).prefetch(2))
    trainer = RedshiftTrainer()
    began = time.perf_counter()
    steps = 0
    for masked, epochs in ((0, 5), (256, 5)):
        steps += trainer.stage(ds, epochs, masked)
    seconds = time.perf_counter() - began
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", seconds)


if __name__ == "__main__":
    main()
