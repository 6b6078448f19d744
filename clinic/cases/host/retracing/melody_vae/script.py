"""A small VAE over two-bar piano rolls, with KL annealing and a cooling temperature."""
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

TICKS, PITCHES, LATENT = 48, 24, 32
BATCH, STEPS, WARMUP = 256, 210, 195
SCALE = np.array([0, 2, 4, 5, 7, 9, 11])


class Knobs(NamedTuple):
    beta: float
    temperature: float


def make_rolls(n, seed=11):
    rng = np.random.default_rng(seed)
    rolls = np.zeros((n, TICKS, PITCHES), np.float32)
    root = rng.integers(0, 5, size=n)
    degree = rng.integers(0, 7, size=n)
    rows = np.arange(n)
    for t in range(TICKS):
        moves = rng.integers(-1, 2, size=n) * (t % 3 == 0)
        degree = np.clip(degree + moves, 0, 9)
        pitch = root + SCALE[degree % 7] + 12 * (degree // 7)
        rolls[rows, t, np.minimum(pitch, PITCHES - 1)] = 1.0
    return rolls.reshape(n, -1)


def build_encoder():
    x = keras.Input((TICKS * PITCHES,))
    h = layers.Dense(384, activation="relu")(x)
    h = layers.Dense(192, activation="relu")(h)
    return keras.Model(x, [layers.Dense(LATENT)(h), layers.Dense(LATENT)(h)], name="encoder")


def build_decoder():
    z = keras.Input((LATENT,))
    h = layers.Dense(192, activation="relu")(z)
    h = layers.Dense(384, activation="relu")(h)
    return keras.Model(z, layers.Dense(TICKS * PITCHES)(h), name="decoder")


class MelodyVAE:
    def __init__(self):
        self.encoder = build_encoder()
        self.decoder = build_decoder()
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.weights = self.encoder.trainable_variables + self.decoder.trainable_variables
        self.optimizer.build(self.weights)

    def schedule(self, step):
        stage = step // 15
        beta = min(1.0, stage * 15 / WARMUP)
        return Knobs(beta=beta, temperature=1.0 + 0.5 * (1.0 - beta))

    @tf.function
    def train_step(self, rolls, knobs):
        with tf.GradientTape() as tape:
            mean, logvar = self.encoder(rolls, training=True)
            z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
            logits = self.decoder(z, training=True) / knobs.temperature
            bits = tf.nn.sigmoid_cross_entropy_with_logits(labels=rolls, logits=logits)
            recon = tf.reduce_mean(tf.reduce_sum(bits, axis=-1))
            kl = -0.5 * tf.reduce_mean(
                tf.reduce_sum(1.0 + logvar - tf.square(mean) - tf.exp(logvar), axis=-1))
            loss = recon + knobs.beta * kl
        grads = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(grads, self.weights))
        return recon, kl


def main():
    keras.utils.set_random_seed(5)
    rolls = make_rolls(8192)
    data = (tf.data.Dataset.from_tensor_slices(rolls).cache().repeat()
            .shuffle(4096, seed=2).batch(BATCH).prefetch(tf.data.AUTOTUNE))
    vae = MelodyVAE()

    start = time.perf_counter()
    for step, batch in enumerate(data.take(STEPS)):
        knobs = vae.schedule(step)
        recon, kl = vae.train_step(batch, knobs)
        if step % 50 == 0:
            print(f"step {step:4d} beta {float(knobs.beta):.2f} recon {float(recon):.2f} kl {float(kl):.2f}")
    print(f"last: recon {float(recon):.2f} kl {float(kl):.2f}")
    seconds = time.perf_counter() - start
    print("WORK", STEPS)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
