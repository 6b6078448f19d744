import math

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CONFIG = {
    "bits": 1024,
    "latent": 24,
    "batch": 256,
    "epochs": 10,
    "cycles": 2,
    "molecules": 30_000,
    "lr": 5e-4,
}


def fingerprints(n, bits):
    rng = np.random.default_rng(9)
    scaffolds = rng.random((64, bits)) < 0.05
    pick = rng.integers(0, 64, n)
    noise = rng.random((n, bits)) < 0.01
    return (scaffolds[pick] ^ noise).astype("float32")


class FingerprintVAE(keras.Model):
    def __init__(self, bits, latent):
        super().__init__()
        self.latent = latent
        self.encoder = keras.Sequential([
            keras.Input((bits,)),
            layers.Dense(512, activation="gelu"),
            layers.Dense(256, activation="gelu"),
            layers.Dense(2 * latent),
        ])
        self.decoder = keras.Sequential([
            keras.Input((latent,)),
            layers.Dense(256, activation="gelu"),
            layers.Dense(512, activation="gelu"),
            layers.Dense(bits),
        ])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=-1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar


def cyclical(step, total, cycles):
    phase = (step % (total // cycles)) / (total // cycles)
    return 0.5 * (1 - math.cos(math.pi * phase))


def train(cfg):
    data = fingerprints(cfg["molecules"], cfg["bits"])
    ds = tf.data.Dataset.from_tensor_slices(data).shuffle(8192)
    ds = ds.batch(cfg["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = FingerprintVAE(cfg["bits"], cfg["latent"])
    model(tf.zeros((1, cfg["bits"])))
    optimizer = keras.optimizers.Adam(cfg["lr"])
    optimizer.build(model.trainable_variables)

    @tf.function
    def step_fn(x, beta):
        with tf.GradientTape() as tape:
            logits, mean, logvar = model(x, training=True)
            rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), -1)
            kl = -0.5 * tf.reduce_sum(1 + logvar - tf.square(mean) - tf.exp(logvar), -1)
            loss = tf.reduce_mean(rec + beta * kl)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    total = cfg["epochs"] * (cfg["molecules"] // cfg["batch"])
    step = 0
    for epoch in range(cfg["epochs"]):
        for x in ds:
            beta = cyclical(step, total, cfg["cycles"])
            loss = step_fn(x, tf.constant(beta, tf.float32))
            step += 1
        print(f"epoch {epoch} elbo {-float(loss):.2f} beta {beta:.2f}")
    return model


if __name__ == "__main__":
    train(CONFIG)
