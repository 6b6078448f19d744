"""VAE over synthesizer presets with a warm-up of the KL term."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


class Sampling(layers.Layer):
    def call(self, inputs):
        mu, logvar = inputs
        return mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))


class PresetVAE:
    def __init__(self, n_params, latent=16, width=512):
        enc_in = layers.Input((n_params,))
        h = enc_in
        for _ in range(3):
            h = layers.Dense(width, activation="elu")(h)
            h = layers.BatchNormalization()(h)
        mu, logvar = layers.Dense(latent)(h), layers.Dense(latent)(h)
        z = Sampling()([mu, logvar])
        d = z
        for _ in range(3):
            d = layers.Dense(width, activation="elu")(d)
        self.net = keras.Model(enc_in, [layers.Dense(n_params)(d), mu, logvar])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def train_step(self, x, beta):
        with tf.GradientTape() as tape:
            rec, mu, logvar = self.net(x, training=True)
            rec_loss = tf.reduce_mean(tf.reduce_sum(tf.square(rec - x), -1))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mu ** 2 - tf.exp(logvar), -1))
            loss = rec_loss + beta * kl
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return rec_loss, kl


def presets(n=8192, p=155):
    rng = np.random.default_rng(8)
    basis = rng.normal(size=(10, p))
    return np.tanh(rng.normal(size=(n, 10)) @ basis).astype("float32")


def main():
    tf.random.set_seed(8)
    data = presets()
    ds = tf.data.Dataset.from_tensor_slices(data).shuffle(8192).batch(256, drop_remainder=True).prefetch(2)
    vae = PresetVAE(data.shape[1])
    epochs, warmup_steps, every = 5, 200, 16
    step = 0
    t0 = time.time()
    for epoch in range(epochs):
        for x in ds:
            beta = min(1.0, (step // every * every) / warmup_steps)
            rec, kl = vae.train_step(x, tf.constant(beta, tf.float32))
            step += 1
        print(f"{epoch}: rec {float(rec):.3f} kl {float(kl):.3f} beta {beta:.2f}")
    t1 = time.time()
    print("WORK", step)
    print("TRAIN_SECONDS %.2f" % (t1 - t0))


if __name__ == "__main__":
    main()
